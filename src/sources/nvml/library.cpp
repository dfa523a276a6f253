#include "sources/nvml/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "model/limits.h"

namespace rung::nvml {
namespace {

// The first of `names` that the library exports.
template <class F>
void find(void* library, std::initializer_list<const char*> names, F* function) {
  for (const char* name : names) {
    if (void* found = ::dlsym(library, name)) {
      *function = reinterpret_cast<F>(found);
      return;
    }
  }
}

Functions find_all(void* library) {
  Functions f;
  find(library, {"nvmlInit_v2", "nvmlInit"}, &f.init);
  find(library, {"nvmlShutdown"}, &f.shutdown);
  find(library, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}, &f.count);
  find(library, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
       &f.handle_by_index);
  find(library, {"nvmlDeviceGetUUID"}, &f.uuid);
  find(library, {"nvmlDeviceGetName"}, &f.name);
  find(library, {"nvmlDeviceGetUtilizationRates"}, &f.utilization);
  find(library, {"nvmlDeviceGetMemoryInfo_v2"}, &f.memory_v2);
  find(library, {"nvmlDeviceGetMemoryInfo"}, &f.memory);
  find(library, {"nvmlDeviceGetPowerUsage"}, &f.power);
  find(library, {"nvmlDeviceGetClockInfo"}, &f.clock);
  find(library, {"nvmlDeviceGetTemperature"}, &f.temperature);
  find(library,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
       &f.clock_reasons);
  find(library, {"nvmlDeviceGetFieldValues"}, &f.fields);
  find(library,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"},
       &f.processes);
  find(library, {"nvmlDeviceGetComputeRunningProcesses"}, &f.old_processes);
  find(library, {"nvmlGpmQueryDeviceSupport"}, &f.gpm_support);
  find(library, {"nvmlGpmSampleAlloc"}, &f.gpm_alloc);
  find(library, {"nvmlGpmSampleFree"}, &f.gpm_free);
  find(library, {"nvmlGpmSampleGet"}, &f.gpm_get);
  find(library, {"nvmlGpmMetricsGet"}, &f.gpm_metrics);
  return f;
}

Failure failure_of(const char* call, Return code) {
  const bool no_driver = code == kDriverNotLoaded || code == kLibraryNotFound;
  return {no_driver ? vendor::Status::kNoDriver : vendor::Status::kError, code,
          std::string(call) + ": " + text_of(code)};
}

}  // namespace

std::unique_ptr<NvmlLibrary> NvmlLibrary::load(const std::string& path, Failure* failure) {
  std::unique_ptr<NvmlLibrary> library(new NvmlLibrary);
  library->handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle_ == nullptr) {
    const char* why = ::dlerror();
    *failure = {vendor::Status::kNoLibrary, 0, why != nullptr ? why : path};
    return nullptr;
  }
  Functions calls = find_all(library->handle_);
  if (calls.init == nullptr || calls.count == nullptr || calls.handle_by_index == nullptr ||
      calls.uuid == nullptr) {
    *failure = {vendor::Status::kNoLibrary, kFunctionNotFound, path + " is not NVML"};
    return nullptr;
  }
  library->simulated_ = ::dlsym(library->handle_, "rung_simulated") != nullptr;
  const Return code = calls.init();
  if (code != kSuccess) {
    *failure = failure_of("nvmlInit_v2", code);
    return nullptr;
  }
  library->calls_ = calls;
  return library;
}

NvmlLibrary::~NvmlLibrary() {
  // Never dlclose: NVML leaves threads of its own behind.
  if (calls_.shutdown != nullptr) calls_.shutdown();
}

std::optional<std::vector<std::string>> NvmlLibrary::enumerate(Failure* failure) const {
  unsigned count = 0;
  if (const Return code = calls_.count(&count); code != kSuccess) {
    *failure = failure_of("nvmlDeviceGetCount_v2", code);
    return std::nullopt;
  }
  std::vector<std::string> uuids;
  for (unsigned i = 0; i < std::min<std::size_t>(count, limits::kDevices); ++i) {
    Device device = nullptr;
    std::array<char, kUuidBytes> uuid{};
    const bool named = calls_.handle_by_index(i, &device) == kSuccess &&
                       calls_.uuid(device, uuid.data(), kUuidBytes) == kSuccess;
    uuid.back() = '\0';
    uuids.emplace_back(named ? uuid.data() : "");
  }
  return uuids;
}

std::string text_of(Return code) {
  switch (code) {
    case kUninitialized:
      return "not initialized";
    case kNotSupported:
      return "not supported";
    case kNoPermission:
      return "no permission";
    case kDriverNotLoaded:
      return "driver not loaded";
    case kLibraryNotFound:
      return "a library of the driver is missing";
    case kGpuIsLost:
      return "GPU is lost";
    case kResetRequired:
      return "GPU requires a reset";
    case kOperatingSystem:
      return "blocked by the operating system (device control group?)";
    case kLibRmVersionMismatch:
      return "driver and library versions differ (driver upgraded?)";
    case kUnknown:
      return "unknown error";
    default:
      return "code " + std::to_string(code);
  }
}

bool is_fatal(Return code) {
  return code == kUninitialized || code == kGpuIsLost || code == kResetRequired ||
         code == kLibRmVersionMismatch || code == kDriverNotLoaded;
}

}  // namespace rung::nvml
