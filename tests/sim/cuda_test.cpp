// What the simulated libcuda claims: asynchronous launches, waits that wait, real copies.
#include <elf.h>
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "sim/child.h"

namespace rung::sim {
namespace {

constexpr std::int64_t kLongNs = 150'000'000;

std::int64_t now_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

// Holds a stream until it is opened.
struct Gate {
  std::atomic<bool> open{false};
  static void wait(void* self) {
    while (!static_cast<Gate*>(self)->open.load()) ::usleep(1000);
  }
};

class SimCuda : public testing::Test {
 protected:
  void expect_success(const std::function<int(Child&)>& body) {
    Child child(folder_.path(), body);
    EXPECT_EQ(child.join(), 0);
  }
  TempFolder folder_;
};

TEST_F(SimCuda, LaunchesReturnAtOnceAndSynchronizeWaits) {
  expect_success([](Child&) {
    Cuda cuda;
    const std::int64_t before = now_ns(CLOCK_MONOTONIC);
    SIM_CHECK(cuda.launch(kLongNs) == 0);
    SIM_CHECK(cuda.cuStreamQuery(cuda.stream) == CUDA_ERROR_NOT_READY);
    SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
    SIM_CHECK(now_ns(CLOCK_MONOTONIC) - before >= kLongNs);
    SIM_CHECK(cuda.cuStreamQuery(cuda.stream) == CUDA_SUCCESS);
    return 0;
  });
}

TEST_F(SimCuda, KernelsOfOneStreamTakeTheSumOfTheirTimes) {
  expect_success([](Child&) {
    Cuda cuda;
    const std::int64_t before = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < 100; ++i) SIM_CHECK(cuda.launch(1'000'000) == 0);
    SIM_CHECK(cuda.cuCtxSynchronize() == 0);
    SIM_CHECK(now_ns(CLOCK_MONOTONIC) - before >= 100'000'000);
    return 0;
  });
}

TEST_F(SimCuda, TheHostRunsAheadUntilTheQueueIsFull) {
  expect_success([](Child&) {
    Cuda cuda;
    Gate gate;
    std::atomic<int> launched{0};
    SIM_CHECK(cuda.cuLaunchHostFunc(cuda.stream, Gate::wait, &gate) == 0);
    constexpr int kLaunches = 3000;
    std::thread host([&] {
      for (int i = 0; i < kLaunches; ++i) {
        cuda.launch(0);
        ++launched;
      }
    });
    while (launched.load() < 1024) ::usleep(1000);
    ::usleep(50000);
    const int ahead = launched.load();
    gate.open = true;
    host.join();
    // The gate itself is executing or still in the queue.
    SIM_CHECK(ahead >= 1024 && ahead <= 1025);
    SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
    return 0;
  });
}

TEST_F(SimCuda, EventsOrderStreams) {
  expect_success([](Child&) {
    Cuda cuda;
    Gate gate;
    CUstream other = nullptr;
    CUevent event = nullptr;
    SIM_CHECK(cuda.cuStreamCreate(&other, 0) == 0 && cuda.cuEventCreate(&event, 0) == 0);
    SIM_CHECK(cuda.cuEventQuery(event) == CUDA_SUCCESS);
    SIM_CHECK(cuda.cuLaunchHostFunc(cuda.stream, Gate::wait, &gate) == 0);
    SIM_CHECK(cuda.cuEventRecord(event, cuda.stream) == 0);
    SIM_CHECK(cuda.cuStreamWaitEvent(other, event, 0) == 0);
    SIM_CHECK(cuda.cuEventQuery(event) == CUDA_ERROR_NOT_READY);
    ::usleep(20000);
    SIM_CHECK(cuda.cuStreamQuery(other) == CUDA_ERROR_NOT_READY);
    gate.open = true;
    SIM_CHECK(cuda.cuEventSynchronize(event) == 0);
    SIM_CHECK(cuda.cuEventQuery(event) == CUDA_SUCCESS);
    SIM_CHECK(cuda.cuStreamSynchronize(other) == 0);
    SIM_CHECK(cuda.cuEventDestroy_v2(event) == 0 && cuda.cuStreamDestroy_v2(other) == 0);
    return 0;
  });
}

TEST_F(SimCuda, CopiesAndSetsAreReal) {
  expect_success([](Child&) {
    Cuda cuda;
    std::size_t free_before = 0, free_after = 0, total = 0;
    CUdeviceptr a = 0, b = 0;
    constexpr std::size_t kBytes = 1 << 20;
    SIM_CHECK(cuda.cuMemGetInfo_v2(&free_before, &total) == 0);
    SIM_CHECK(cuda.cuMemAlloc_v2(&a, kBytes) == 0 && cuda.cuMemAlloc_v2(&b, kBytes) == 0);
    SIM_CHECK(cuda.cuMemGetInfo_v2(&free_after, &total) == 0);
    SIM_CHECK(free_before - free_after == 2 * kBytes);
    const char text[] = "content";
    char back[sizeof text] = {};
    SIM_CHECK(cuda.cuMemcpyHtoD_v2(a, text, sizeof text) == 0);
    SIM_CHECK(cuda.cuMemcpyDtoDAsync_v2(b, a, sizeof text, cuda.stream) == 0);
    SIM_CHECK(cuda.cuMemsetD8Async(b, 'C', 1, cuda.stream) == 0);
    SIM_CHECK(cuda.cuMemcpyDtoHAsync_v2(back, b, sizeof text, cuda.stream) == 0);
    SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
    SIM_CHECK(std::strcmp(back, "Content") == 0);
    SIM_CHECK(cuda.cuMemFree_v2(a) == 0 && cuda.cuMemFree_v2(b) == 0);
    SIM_CHECK(cuda.cuMemFree_v2(b) == CUDA_ERROR_INVALID_VALUE);
    SIM_CHECK(cuda.cuMemAlloc_v2(&a, total + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    return 0;
  });
}

TEST_F(SimCuda, AGraphRunsAtEachLaunchAndNotDuringCapture) {
  expect_success([](Child&) {
    Cuda cuda;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    std::atomic<int> runs{0};
    const auto count = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
    SIM_CHECK(cuda.cuStreamBeginCapture_v2(cuda.stream, 0) == 0);
    SIM_CHECK(cuda.launch(1000) == 0);
    SIM_CHECK(cuda.cuLaunchHostFunc(cuda.stream, count, &runs) == 0);
    SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    SIM_CHECK(cuda.cuStreamEndCapture(cuda.stream, &graph) == 0);
    SIM_CHECK(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
    SIM_CHECK(cuda.cuGraphDestroy(graph) == 0);
    SIM_CHECK(runs.load() == 0);
    for (int i = 0; i < 3; ++i) SIM_CHECK(cuda.cuGraphLaunch(exec, cuda.stream) == 0);
    SIM_CHECK(cuda.cuStreamSynchronize(cuda.stream) == 0);
    SIM_CHECK(runs.load() == 3);
    SIM_CHECK(cuda.cuGraphExecDestroy(exec) == 0);
    return 0;
  });
}

TEST_F(SimCuda, ProcAddressesAreTheExportedFunctions) {
  expect_success([](Child&) {
    Cuda cuda;
    const auto found = [&](const char* name, std::uint64_t flags) {
      void* address = nullptr;
      cuda.cuGetProcAddress_v2(name, &address, 13000, flags, nullptr);
      return address;
    };
    SIM_CHECK(found("cuLaunchKernel", 0) == reinterpret_cast<void*>(cuda.cuLaunchKernel));
    SIM_CHECK(found("cuMemAlloc", 0) == reinterpret_cast<void*>(cuda.cuMemAlloc_v2));
    SIM_CHECK(found("cuLaunchKernel", 2) == ::dlsym(cuda.library, "cuLaunchKernel_ptsz"));
    SIM_CHECK(found("cuNoSuchCall", 0) == nullptr);
    return 0;
  });
}

TEST_F(SimCuda, VisibleDevicesRenumbersThem) {
  expect_success([](Child&) {
    ::setenv("CUDA_VISIBLE_DEVICES", "5,2", 1);
    Cuda cuda(1);
    int count = 0;
    CUuuid uuid{};
    SIM_CHECK(cuda.cuDeviceGetCount(&count) == 0 && count == 2);
    SIM_CHECK(cuda.cuDeviceGetUuid_v2(&uuid, 0) == 0 && uuid.bytes[15] == 5);
    SIM_CHECK(cuda.cuDeviceGetUuid_v2(&uuid, 1) == 0 && uuid.bytes[15] == 2);
    SIM_CHECK(cuda.cuDeviceGetUuid_v2(&uuid, 2) == CUDA_ERROR_INVALID_DEVICE);
    return 0;
  });
}

TEST_F(SimCuda, WaitsSpinOnRequest) {
  const auto cpu_ns_of_a_wait = [&](const char* waits) {
    Child child(folder_.path(), [waits](Child& parent) {
      ::setenv("RUNG_SIM_WAITS", waits, 1);
      Cuda cuda;
      cuda.launch(kLongNs);
      const std::int64_t before = now_ns(CLOCK_THREAD_CPUTIME_ID);
      cuda.cuStreamSynchronize(cuda.stream);
      parent.send(now_ns(CLOCK_THREAD_CPUTIME_ID) - before);
      return 0;
    });
    return child.receive<std::int64_t>();
  };
  EXPECT_GT(cpu_ns_of_a_wait("spin"), 4 * cpu_ns_of_a_wait("sleep"));
}

#if defined(__x86_64__)
// First bytes of a function in its file. In memory an agent of this host may have put a probe
// there.
std::string code_in_file(void* library, const char* name, std::size_t bytes) {
  void* address = ::dlsym(library, name);
  Dl_info info{};
  if (address == nullptr || ::dladdr(address, &info) == 0) return "";
  std::ifstream file(info.dli_fname, std::ios::binary);
  const std::string elf(std::istreambuf_iterator<char>(file), {});
  const auto at =
      reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(elf.data());
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(elf.data() + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i) {
    const Elf64_Phdr& segment = segments[i];
    if (segment.p_type != PT_LOAD || at < segment.p_vaddr) continue;
    if (at - segment.p_vaddr < segment.p_filesz) {
      return elf.substr(segment.p_offset + at - segment.p_vaddr, bytes);
    }
  }
  return "";
}

TEST_F(SimCuda, ProbedFunctionsBeginWithPush) {
  expect_success([](Child&) {
    Cuda cuda;
    Nccl nccl;
    const std::string push = "\x55", endbr_push = "\xf3\x0f\x1e\xfa\x55";
    const auto begins_with = [](void* library, const char* name, const std::string& bytes) {
      const bool same = code_in_file(library, name, bytes.size()) == bytes;
      if (!same) std::fprintf(stderr, "%s begins otherwise\n", name);
      return same;
    };
    for (const char* name : {"cuLaunchKernel",          "cuLaunchKernel_ptsz",
                             "cuLaunchKernelEx",        "cuLaunchKernelEx_ptsz",
                             "cuGraphLaunch",           "cuGraphLaunch_ptsz",
                             "cuStreamSynchronize",     "cuStreamSynchronize_ptsz",
                             "cuEventSynchronize",      "cuCtxSynchronize",
                             "cuMemcpyHtoDAsync_v2",    "cuMemcpyDtoHAsync_v2",
                             "cuMemcpyDtoDAsync_v2",    "cuMemcpyAsync",
                             "cuMemcpyHtoD_v2",         "cuMemcpyDtoH_v2",
                             "cuMemsetD8Async",         "cuMemsetD32Async",
                             "cuMemAlloc_v2",           "cuMemFree_v2",
                             "cuMemAllocAsync",         "cuMemFreeAsync",
                             "cuMemHostAlloc",          "cuModuleLoadData",
                             "cuStreamBeginCapture_v2", "cuStreamEndCapture"}) {
      SIM_CHECK(begins_with(cuda.library, name, push));
    }
    for (const char* name :
         {"ncclAllReduce",   "pncclAllReduce", "ncclReduce",        "ncclBroadcast",
          "ncclBcast",       "ncclAllGather",  "ncclReduceScatter", "ncclAlltoAll",
          "ncclGather",      "ncclScatter",    "ncclSend",          "ncclRecv",
          "ncclGroupStart",  "ncclGroupEnd",   "ncclCommInitRank",  "ncclCommInitRankConfig",
          "ncclCommInitAll", "ncclCommSplit",  "ncclCommFinalize",  "ncclCommDestroy",
          "ncclCommAbort"}) {
      SIM_CHECK(begins_with(nccl.library, name, push));
    }
    SIM_CHECK(begins_with(cuda.library, "cuLaunchCooperativeKernel", endbr_push));
    return 0;
  });
}
#endif

}  // namespace
}  // namespace rung::sim
