// libnvidia-ml.so.1: the exported functions over the virtual devices. Layouts as in nvml.h of
// driver 580.
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "fabric/fabric.h"
#include "fakes/nvml/device.h"
#include "rung_sim/identity.h"

#define SIM_NVML extern "C" __attribute__((visibility("default"))) nvmlReturn_t

using nvmlReturn_t = int;
using nvmlDevice_t = struct SimNvmlDevice*;
using nvmlGpmSample_t = rung::sim::Snapshot*;

namespace {

enum : nvmlReturn_t {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
};

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

struct MemoryV1 {
  unsigned long long total, free, used;
};

struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
static_assert(sizeof(MemoryV2) == 40 && offsetof(MemoryV2, used) == 32);

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24 && offsetof(ProcessInfo, gpu_instance) == 16);

struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp_us;
  long long latency_us;
  unsigned type;
  nvmlReturn_t result;
  union {
    double number;
    unsigned u32;
    unsigned long long u64;
  } value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, value) == 32);

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

struct GpmMetric {
  unsigned id;
  nvmlReturn_t result;
  double value;
  const char* names[3];
};
static_assert(sizeof(GpmMetric) == 40);

struct GpmMetricsGet {
  unsigned version;
  unsigned count;
  nvmlGpmSample_t before;
  nvmlGpmSample_t after;
  GpmMetric metrics[333];
};
static_assert(offsetof(GpmMetricsGet, metrics) == 24);

struct GpmSupport {
  unsigned version;
  unsigned supported;
};

int references = 0;

}  // namespace

struct SimNvmlDevice {
  int index;
};

namespace {

using namespace rung::sim;

std::array<SimNvmlDevice, kDevices>& devices() {
  static auto* const all = [] {
    auto* made = new std::array<SimNvmlDevice, kDevices>;
    for (std::size_t i = 0; i < made->size(); ++i) (*made)[i].index = static_cast<int>(i);
    return made;
  }();
  return *all;
}

constexpr int count() { return static_cast<int>(kDevices); }

// What every call does first: the control file, then the checks of the real library.
nvmlReturn_t enter(const char* function, nvmlDevice_t device) {
  if (references == 0) return kUninitialized;
  const bool known =
      device != nullptr && device >= devices().data() && device < devices().data() + count();
  if (!known) return kInvalidArgument;
  return gate(function, device->index).value_or(kSuccess);
}

double power_mw(int device) {
  const Load load = recent_load(device);
  constexpr double kIdle = 78000, kSpinning = 120000, kComputing = 450000;
  return kIdle + kSpinning * load.any + kComputing * load.compute;
}

std::uint64_t energy_mj(const Snapshot& now) {
  return static_cast<std::uint64_t>(static_cast<double>(now.at_ns) / 1e9 * 78000 +
                                    static_cast<double>(now.any_ns) / 1e9 * 120000 +
                                    static_cast<double>(now.compute_ns) / 1e9 * 450000);
}

double temperature_c(int device) { return 34 + 30 * recent_load(device).compute; }

int bus(int device) { return 0x10 + device; }

void fill_field(FieldValue& field, int device) {
  enum : unsigned { kU32 = 1, kU64 = 3 };
  const Snapshot now = snapshot(device);
  field.timestamp_us = now.at_ns / 1000;
  field.latency_us = 0;
  field.result = kSuccess;
  field.type = kU64;
  switch (field.field) {
    case 82:  // memory temperature
      field.type = kU32;
      field.value.u32 = setting("temperature_c", device, temperature_c(device) + 6);
      return;
    case 83:  // energy, mJ
      field.value.u64 = energy_mj(now);
      return;
    case 91:  // NVLink count
      field.type = kU32;
      field.value.u32 = kNvLinks;
      return;
    case 138:  // NVLink data sent, KiB; a link carries its share
    case 139:  // received: collectives are symmetric
    case 140:
    case 141:
      field.value.u64 = now.nvlink_bytes / 1024 / (field.scope == ~0U ? 1 : kNvLinks);
      return;
    case 185:  // average power, mW
    case 186:
      field.type = kU32;
      field.value.u32 = setting("power_mw", device, power_mw(device));
      return;
    case 94:  // PCIe replays, remapped rows, recovery action: none
    case 142:
    case 143:
    case 144:
    case 145:
    case 230:
      field.type = kU32;
      field.value.u32 = 0;
      return;
    default:
      field.result = kNotSupported;
  }
}

std::optional<double> gpm_metric(unsigned id, const Snapshot& before, const Snapshot& after) {
  const Load load = load_between(before, after);
  // A collective keeps about a tenth of the SMs busy while it waits.
  constexpr double kCollectiveShare = 0.1;
  const double sm = load.compute + kCollectiveShare * std::max(load.any - load.compute, 0.0);
  const double seconds = static_cast<double>(after.at_ns - before.at_ns) / 1e9;
  const double nvlink_mib =
      static_cast<double>(after.nvlink_bytes - before.nvlink_bytes) / 1048576 / seconds;
  switch (id) {
    case 1:
      return 100 * load.any;
    case 2:
      return 100 * sm;
    case 3:
      return 15 * sm;
    case 5:
      return 60 * load.compute;
    case 10:
      return 30 * load.compute;
    case 20:
    case 21:
      return 8 * load.any;
    case 60:
    case 61:
      return nvlink_mib;
    default:
      return std::nullopt;
  }
}

void format_text(char* text, unsigned length, const char* source) {
  std::snprintf(text, length, "%s", source);
}

}  // namespace

SIM_NVML nvmlInit_v2() {
  if (const auto error = gate("nvmlInit_v2", std::nullopt)) return *error;
  if (std::getenv("RUNG_SIM_DIR") == nullptr) return kDriverNotLoaded;
  ++references;
  return kSuccess;
}

SIM_NVML nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }

SIM_NVML nvmlShutdown() {
  if (references == 0) return kUninitialized;
  --references;
  return kSuccess;
}

extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(nvmlReturn_t code) {
  return code == kSuccess ? "Success" : "Simulated error";
}

SIM_NVML nvmlSystemGetDriverVersion(char* text, unsigned length) {
  if (const auto error = gate(__func__, std::nullopt)) return *error;
  format_text(text, length, kDriverVersion);
  return kSuccess;
}

SIM_NVML nvmlSystemGetNVMLVersion(char* text, unsigned length) {
  format_text(text, length, kDriverVersion);
  return kSuccess;
}

SIM_NVML nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = kCudaDriverVersion;
  return kSuccess;
}

SIM_NVML nvmlDeviceGetCount_v2(unsigned* number) {
  if (references == 0) return kUninitialized;
  if (const auto error = gate(__func__, std::nullopt)) return *error;
  *number = static_cast<unsigned>(count());
  return kSuccess;
}

SIM_NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  if (references == 0) return kUninitialized;
  if (index >= static_cast<unsigned>(count())) return kInvalidArgument;
  if (const auto error = gate(__func__, static_cast<int>(index))) return *error;
  *device = &devices()[index];
  return kSuccess;
}

SIM_NVML nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) *index = static_cast<unsigned>(device->index);
  return entered;
}

SIM_NVML nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned* minor) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) *minor = static_cast<unsigned>(device->index);
  return entered;
}

SIM_NVML nvmlDeviceGetUUID(nvmlDevice_t device, char* text, unsigned length) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered != kSuccess) return entered;
  if (length < 41) return kInsufficientSize;
  // The bytes that the simulated cuDeviceGetUuid gives: "SIM", version and variant, the index.
  std::snprintf(text, length, "GPU-53494d00-0000-4000-8000-00000000%04x", device->index);
  return kSuccess;
}

SIM_NVML nvmlDeviceGetName(nvmlDevice_t device, char* text, unsigned length) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) format_text(text, length, kDeviceName);
  return entered;
}

SIM_NVML nvmlDeviceGetSerial(nvmlDevice_t device, char* text, unsigned length) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) std::snprintf(text, length, "SIM%010d", device->index);
  return entered;
}

SIM_NVML nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, PciInfo* info) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered != kSuccess) return entered;
  *info = PciInfo{};
  info->bus = static_cast<unsigned>(bus(device->index));
  info->pci_device = 0x233510de;
  std::snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "0000:%02X:00.0", info->bus);
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
  return kSuccess;
}

SIM_NVML nvmlDeviceGetUtilizationRates(nvmlDevice_t device, Utilization* rates) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered != kSuccess) return entered;
  const Load load = recent_load(device->index);
  rates->gpu = static_cast<unsigned>(100 * load.any + 0.5);
  rates->memory = static_cast<unsigned>(30 * load.compute + 0.5);
  return kSuccess;
}

SIM_NVML nvmlDeviceGetMemoryInfo(nvmlDevice_t device, MemoryV1* memory) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered != kSuccess) return entered;
  const std::uint64_t used = snapshot(device->index).used_bytes + kMemoryReserved;
  *memory = {kMemoryTotal, kMemoryTotal - used, used};
  return kSuccess;
}

SIM_NVML nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, MemoryV2* memory) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered != kSuccess) return entered;
  constexpr unsigned kVersion = sizeof(MemoryV2) | (2U << 24);
  constexpr nvmlReturn_t kVersionMismatch = 25;
  if (memory->version != kVersion) return kVersionMismatch;
  const std::uint64_t used = snapshot(device->index).used_bytes;
  *memory = {kVersion, kMemoryTotal, kMemoryReserved, kMemoryTotal - kMemoryReserved - used, used};
  return kSuccess;
}

SIM_NVML nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* milliwatts) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) {
    *milliwatts = setting("power_mw", device->index, power_mw(device->index));
  }
  return entered;
}

SIM_NVML nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned* milliwatts) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) *milliwatts = 700000;
  return entered;
}

SIM_NVML nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long* millijoules) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) *millijoules = energy_mj(snapshot(device->index));
  return entered;
}

SIM_NVML nvmlDeviceGetClockInfo(nvmlDevice_t device, int clock, unsigned* megahertz) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered != kSuccess) return entered;
  constexpr int kMemoryClock = 2;
  constexpr double kBusy = 1980, kIdle = 345;
  if (clock == kMemoryClock) {
    *megahertz = 3201;
    return kSuccess;
  }
  *megahertz =
      setting("sm_clock_mhz", device->index, recent_load(device->index).any > 0 ? kBusy : kIdle);
  return kSuccess;
}

SIM_NVML nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int clock, unsigned* megahertz) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) *megahertz = clock == 2 ? 3201 : 1980;
  return entered;
}

SIM_NVML nvmlDeviceGetTemperature(nvmlDevice_t device, int, unsigned* celsius) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) {
    *celsius = setting("temperature_c", device->index, temperature_c(device->index));
  }
  return entered;
}

static nvmlReturn_t clock_reasons(const char* function, nvmlDevice_t device,
                                  unsigned long long* reasons) {
  const nvmlReturn_t entered = enter(function, device);
  if (entered != kSuccess) return entered;
  constexpr double kIdleReason = 1;
  *reasons =
      setting("clock_reasons", device->index, recent_load(device->index).any > 0 ? 0 : kIdleReason);
  return kSuccess;
}

SIM_NVML nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return clock_reasons(__func__, device, reasons);
}

SIM_NVML nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                   unsigned long long* reasons) {
  return clock_reasons(__func__, device, reasons);
}

SIM_NVML nvmlDeviceGetFieldValues(nvmlDevice_t device, int number, FieldValue* values) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered != kSuccess) return entered;
  for (int i = 0; i < number; ++i) fill_field(values[i], device->index);
  return kSuccess;
}

SIM_NVML nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* number,
                                                 ProcessInfo* infos) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered != kSuccess) return entered;
  const Snapshot now = snapshot(device->index);
  const unsigned room = *number;
  *number = static_cast<unsigned>(now.processes.size());
  if (room < *number) return kInsufficientSize;
  for (unsigned i = 0; i < *number; ++i) {
    infos[i] = {now.processes[i].pid, now.processes[i].bytes, ~0U, ~0U};
  }
  return kSuccess;
}

SIM_NVML nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int, int, unsigned long long* errors) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) *errors = 0;
  return entered;
}

SIM_NVML nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned* correctable,
                                   unsigned* uncorrectable, unsigned* pending, unsigned* failed) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) *correctable = *uncorrectable = *pending = *failed = 0;
  return entered;
}

SIM_NVML nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) *current = *pending = 0;
  return entered;
}

SIM_NVML nvmlGpmQueryDeviceSupport(nvmlDevice_t device, GpmSupport* support) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) support->supported = 1;
  return entered;
}

SIM_NVML nvmlGpmSampleAlloc(nvmlGpmSample_t* sample) {
  *sample = new Snapshot;
  return kSuccess;
}

SIM_NVML nvmlGpmSampleFree(nvmlGpmSample_t sample) {
  delete sample;
  return kSuccess;
}

SIM_NVML nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
  const nvmlReturn_t entered = enter(__func__, device);
  if (entered == kSuccess) *sample = snapshot(device->index);
  return entered;
}

SIM_NVML nvmlGpmMetricsGet(GpmMetricsGet* request) {
  if (const auto error = gate(__func__, std::nullopt)) return *error;
  if (request->before == nullptr || request->after == nullptr ||
      request->after->at_ns <= request->before->at_ns) {
    return kInvalidArgument;
  }
  for (unsigned i = 0; i < request->count; ++i) {
    GpmMetric& metric = request->metrics[i];
    const auto value = gpm_metric(metric.id, *request->before, *request->after);
    metric.result = value ? kSuccess : kNotSupported;
    metric.value = value.value_or(0);
  }
  return kSuccess;
}
