// What the simulated NVML claims: devices that follow the ranks, calls that block or fail on
// request. The structs are spelled out again, as a user without nvml.h does.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "fakes/nvml/control.h"
#include "sim/child.h"

namespace rung::sim {
namespace {

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct Field {
  unsigned field, scope;
  long long timestamp_us, latency_us;
  unsigned type;
  int result;
  unsigned long long value;
};
struct GpmRequest {
  unsigned version, count;
  void *before, *after;
  struct {
    unsigned id;
    int result;
    double value;
    const char* names[3];
  } metrics[333];
};

struct Nvml {
  using Device = void*;
  void* library = open_library("libnvidia-ml.so.1");
#define RUNG_SIM_FUNCTION(name, ...) \
  int (*name)(__VA_ARGS__) = symbol<int(__VA_ARGS__)>(library, #name)
  RUNG_SIM_FUNCTION(nvmlInit_v2, );
  RUNG_SIM_FUNCTION(nvmlShutdown, );
  RUNG_SIM_FUNCTION(nvmlDeviceGetCount_v2, unsigned*);
  RUNG_SIM_FUNCTION(nvmlDeviceGetHandleByIndex_v2, unsigned, Device*);
  RUNG_SIM_FUNCTION(nvmlDeviceGetUUID, Device, char*, unsigned);
  RUNG_SIM_FUNCTION(nvmlDeviceGetName, Device, char*, unsigned);
  RUNG_SIM_FUNCTION(nvmlDeviceGetUtilizationRates, Device, Utilization*);
  RUNG_SIM_FUNCTION(nvmlDeviceGetMemoryInfo_v2, Device, Memory*);
  RUNG_SIM_FUNCTION(nvmlDeviceGetPowerUsage, Device, unsigned*);
  RUNG_SIM_FUNCTION(nvmlDeviceGetClockInfo, Device, int, unsigned*);
  RUNG_SIM_FUNCTION(nvmlDeviceGetTemperature, Device, int, unsigned*);
  RUNG_SIM_FUNCTION(nvmlDeviceGetCurrentClocksEventReasons, Device, unsigned long long*);
  RUNG_SIM_FUNCTION(nvmlDeviceGetFieldValues, Device, int, Field*);
  RUNG_SIM_FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3, Device, unsigned*, Process*);
  RUNG_SIM_FUNCTION(nvmlGpmSampleAlloc, void**);
  RUNG_SIM_FUNCTION(nvmlGpmSampleFree, void*);
  RUNG_SIM_FUNCTION(nvmlGpmSampleGet, Device, void*);
  RUNG_SIM_FUNCTION(nvmlGpmMetricsGet, GpmRequest*);
#undef RUNG_SIM_FUNCTION

  Device device(unsigned index) {
    Device found = nullptr;
    if (nvmlInit_v2() != 0 || nvmlDeviceGetHandleByIndex_v2(index, &found) != 0) std::abort();
    return found;
  }
};

constexpr int kInvalidArgument = 2, kInsufficientSize = 7, kNoDriver = 9, kGpuLost = 15;

class SimNvml : public testing::Test {
 protected:
  void expect_success(const std::function<int(Child&)>& body) {
    Child child(folder_.path(), body);
    EXPECT_EQ(child.join(), 0);
  }
  void control(const std::string& text) { write_control(folder_.path(), text); }
  static void write_control(const std::string& folder, const std::string& text) {
    std::ofstream(folder + "/nvml.control.new") << text;
    std::filesystem::rename(folder + "/nvml.control.new", folder + "/nvml.control");
  }
  TempFolder folder_;
};

TEST_F(SimNvml, WithoutARunFolderThereIsNoDriver) {
  expect_success([](Child&) {
    ::unsetenv("RUNG_SIM_DIR");
    Nvml nvml;
    SIM_CHECK(nvml.nvmlInit_v2() == kNoDriver);
    return 0;
  });
}

TEST_F(SimNvml, AnIdleNodeHasEightDevices) {
  expect_success([](Child&) {
    Nvml nvml;
    unsigned count = 0, clock = 0, processes = 0;
    unsigned long long reasons = 0;
    Nvml::Device none = nullptr, device = nvml.device(7);
    Utilization rates{};
    char name[96], uuid[96];
    SIM_CHECK(nvml.nvmlDeviceGetCount_v2(&count) == 0 && count == 8);
    SIM_CHECK(nvml.nvmlDeviceGetHandleByIndex_v2(8, &none) == kInvalidArgument);
    SIM_CHECK(nvml.nvmlDeviceGetName(device, name, sizeof name) == 0);
    SIM_CHECK(std::strstr(name, "simulated") != nullptr);
    SIM_CHECK(nvml.nvmlDeviceGetUUID(device, uuid, sizeof uuid) == 0);
    SIM_CHECK(std::strcmp(uuid, "GPU-53494d00-0000-4000-8000-000000000007") == 0);
    SIM_CHECK(nvml.nvmlDeviceGetUUID(device, uuid, 8) == kInsufficientSize);
    SIM_CHECK(nvml.nvmlDeviceGetUtilizationRates(device, &rates) == 0 && rates.gpu == 0);
    SIM_CHECK(nvml.nvmlDeviceGetClockInfo(device, 1, &clock) == 0 && clock == 345);
    SIM_CHECK(nvml.nvmlDeviceGetCurrentClocksEventReasons(device, &reasons) == 0 && reasons == 1);
    SIM_CHECK(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &processes, nullptr) == 0);
    SIM_CHECK(processes == 0);
    SIM_CHECK(nvml.nvmlShutdown() == 0 && nvml.nvmlShutdown() != 0);
    return 0;
  });
}

TEST_F(SimNvml, ADeviceShowsTheKernelsAndMemoryOfItsProcess) {
  Child rank(folder_.path(), [](Child& self) {
    Cuda cuda(3);
    CUdeviceptr memory = 0;
    SIM_CHECK(cuda.cuMemAlloc_v2(&memory, 1 << 30) == 0);
    SIM_CHECK(cuda.launch(60'000'000'000) == 0);
    self.send(0);
    return self.receive<int>();
  });
  rank.receive<int>();
  const unsigned pid = static_cast<unsigned>(rank.pid());
  expect_success([pid](Child&) {
    Nvml nvml;
    Nvml::Device device = nvml.device(3), other = nvml.device(2);
    Utilization rates{}, idle{};
    // The kernel becomes resident a moment after its launch, and the sample window is 100 ms.
    for (int tries = 0; tries < 100 && rates.gpu != 100; ++tries) {
      SIM_CHECK(nvml.nvmlDeviceGetUtilizationRates(device, &rates) == 0);
      ::usleep(50000);
    }
    SIM_CHECK(rates.gpu == 100);
    SIM_CHECK(nvml.nvmlDeviceGetUtilizationRates(other, &idle) == 0 && idle.gpu == 0);
    Memory memory{sizeof(Memory) | (2U << 24), 0, 0, 0, 0}, bad{};
    SIM_CHECK(nvml.nvmlDeviceGetMemoryInfo_v2(device, &bad) == 25);
    SIM_CHECK(nvml.nvmlDeviceGetMemoryInfo_v2(device, &memory) == 0);
    SIM_CHECK(memory.used > 1 << 30 && memory.used < 2ULL << 30);
    SIM_CHECK(memory.total == memory.used + memory.free + memory.reserved);
    unsigned count = 0;
    Process processes[4] = {};
    SIM_CHECK(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, nullptr) ==
              kInsufficientSize);
    SIM_CHECK(count == 1);
    SIM_CHECK(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes) == 0);
    SIM_CHECK(processes[0].pid == pid && processes[0].used_bytes == memory.used);
    unsigned power = 0, idle_power = 0;
    SIM_CHECK(nvml.nvmlDeviceGetPowerUsage(device, &power) == 0);
    SIM_CHECK(nvml.nvmlDeviceGetPowerUsage(other, &idle_power) == 0 && power > idle_power);
    return 0;
  });
  ::kill(rank.pid(), SIGKILL);
  rank.join();
  expect_success([](Child&) {
    Nvml nvml;
    unsigned count = 4;
    Process processes[4] = {};
    SIM_CHECK(nvml.nvmlDeviceGetComputeRunningProcesses_v3(nvml.device(3), &count, processes) == 0);
    SIM_CHECK(count == 0);
    return 0;
  });
}

TEST_F(SimNvml, AWaitingCollectiveIsEngineWithoutSm) {
  Child rank(folder_.path(), [](Child& self) {
    Cuda cuda(0);
    Nccl nccl;
    Child* parent = &self;
    ncclComm_t comm = nccl.connect(2, 0);
    double value = 0;
    SIM_CHECK(nccl.ncclAllReduce(&value, &value, 1, 8, ncclSum, comm, cuda.stream) == 0);
    parent->send(0);
    return parent->receive<int>();
  });
  Child peer(folder_.path(), [](Child& self) {
    Cuda cuda(1);
    Nccl nccl;
    nccl.connect(2, 1);
    return self.receive<int>();
  });
  rank.receive<int>();
  expect_success([](Child&) {
    Nvml nvml;
    Nvml::Device device = nvml.device(0);
    auto request = std::make_unique<GpmRequest>();
    request->version = 1;
    request->count = 3;
    request->metrics[0].id = 1;
    request->metrics[1].id = 2;
    request->metrics[2].id = 332;
    SIM_CHECK(nvml.nvmlGpmSampleAlloc(&request->before) == 0);
    SIM_CHECK(nvml.nvmlGpmSampleAlloc(&request->after) == 0);
    // The kernel becomes resident a moment after its launch.
    for (int tries = 0; tries < 100 && request->metrics[0].value != 100; ++tries) {
      SIM_CHECK(nvml.nvmlGpmSampleGet(device, request->before) == 0);
      ::usleep(100000);
      SIM_CHECK(nvml.nvmlGpmSampleGet(device, request->after) == 0);
      SIM_CHECK(nvml.nvmlGpmMetricsGet(request.get()) == 0);
    }
    SIM_CHECK(request->metrics[0].result == 0 && request->metrics[0].value == 100);
    SIM_CHECK(request->metrics[1].result == 0 && request->metrics[1].value < 20);
    SIM_CHECK(request->metrics[2].result != 0);
    SIM_CHECK(nvml.nvmlGpmSampleFree(request->before) == 0);
    SIM_CHECK(nvml.nvmlGpmSampleFree(request->after) == 0);
    return 0;
  });
  rank.send(0);
  peer.send(0);
  EXPECT_EQ(rank.join(), 0);
  EXPECT_EQ(peer.join(), 0);
}

TEST_F(SimNvml, CollectivesMoveTheNvLinkCounters) {
  const auto traffic = [&] {
    Child child(folder_.path(), [](Child& self) {
      Nvml nvml;
      Field fields[2] = {{138, ~0U, 0, 0, 0, -1, 0}, {99999, 0, 0, 0, 0, -1, 0}};
      SIM_CHECK(nvml.nvmlDeviceGetFieldValues(nvml.device(0), 2, fields) == 0);
      SIM_CHECK(fields[0].result == 0 && fields[1].result != 0);
      self.send(fields[0].value);
      return 0;
    });
    return child.receive<unsigned long long>();
  };
  const auto body = [](int rank) {
    return [rank](Child&) {
      Cuda cuda(rank);
      Nccl nccl;
      ncclComm_t comm = nccl.connect(2, rank);
      CUdeviceptr memory = 0;
      constexpr std::size_t kElements = 1 << 20;
      SIM_CHECK(cuda.cuMemAlloc_v2(&memory, kElements * 8) == 0);
      auto* buffer = reinterpret_cast<void*>(memory);
      SIM_CHECK(nccl.ncclAllReduce(buffer, buffer, kElements, 8, ncclSum, comm, cuda.stream) == 0);
      SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
      return 0;
    };
  };
  EXPECT_EQ(traffic(), 0u);
  Child zero(folder_.path(), body(0)), one(folder_.path(), body(1));
  EXPECT_EQ(zero.join(), 0);
  EXPECT_EQ(one.join(), 0);
  EXPECT_EQ(traffic(), 8u << 10);  // KiB
}

TEST_F(SimNvml, ACallBlocksWhileTheControlFileSaysSo) {
  control("block nvmlDeviceGetPowerUsage forever 1\n");
  const std::string folder = folder_.path();
  expect_success([folder](Child&) {
    Nvml nvml;
    Nvml::Device blocked = nvml.device(1), free = nvml.device(0);
    unsigned value = 0;
    std::atomic<bool> returned{false};
    std::thread caller([&] {
      unsigned power = 0;
      nvml.nvmlDeviceGetPowerUsage(blocked, &power);
      returned = true;
    });
    SIM_CHECK(nvml.nvmlDeviceGetPowerUsage(free, &value) == 0);
    SIM_CHECK(nvml.nvmlDeviceGetTemperature(blocked, 0, &value) == 0);
    ::usleep(200000);
    SIM_CHECK(!returned.load());
    write_control(folder, "");
    caller.join();
    SIM_CHECK(returned.load());
    return 0;
  });
}

TEST_F(SimNvml, ErrorsAndValuesComeFromTheControlFile) {
  control("# a lost device\nerror * 15 2\nset temperature_c 93\nset clock_reasons 64 0\n");
  expect_success([](Child&) {
    Nvml nvml;
    unsigned value = 0;
    unsigned long long reasons = 0;
    Nvml::Device zero = nvml.device(0), one = nvml.device(1), two = nullptr;
    SIM_CHECK(nvml.nvmlDeviceGetHandleByIndex_v2(2, &two) == kGpuLost);
    SIM_CHECK(nvml.nvmlDeviceGetTemperature(one, 0, &value) == 0 && value == 93);
    SIM_CHECK(nvml.nvmlDeviceGetCurrentClocksEventReasons(zero, &reasons) == 0 && reasons == 64);
    return 0;
  });
}

TEST(NvmlControlFile, IsReadLineByLine) {
  const NvmlControl control = parse_nvml_control(
      "block nvmlInit_v2 2.5\r\n\n  error * 15 3\nblock x\nblock x -1\nblock x nan\nerror y z\n"
      "set power_mw 100 4x\nnonsense\nblock last forever");
  ASSERT_EQ(control.blocks.size(), 2u);
  EXPECT_EQ(value_of(control.blocks, "nvmlInit_v2", std::nullopt), 2500);
  EXPECT_EQ(value_of(control.blocks, "last", 1), NvmlControl::kForever);
  EXPECT_EQ(value_of(control.errors, "anything", 3), 15);
  EXPECT_EQ(value_of(control.errors, "anything", 4), std::nullopt);
  EXPECT_TRUE(control.settings.empty());
}

}  // namespace
}  // namespace rung::sim
