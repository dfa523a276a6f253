// NvmlLibrary: the vendor's library, loaded and initialised. Only a vendor worker makes one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "abi/nvml.h"
#include "sources/nvml/wire.h"

namespace rung::nvml {

// Why NVML does not answer.
struct Failure {
  vendor::Status status = vendor::Status::kError;
  Return code = 0;
  std::string detail;  // "nvmlInit_v2: driver not loaded"
};

// The functions that we call; null where the library has none. The name is the newest suffix.
struct Functions {
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  Return (*count)(unsigned*) = nullptr;
  Return (*handle_by_index)(unsigned, Device*) = nullptr;
  Return (*uuid)(Device, char*, unsigned) = nullptr;
  Return (*name)(Device, char*, unsigned) = nullptr;
  Return (*utilization)(Device, Utilization*) = nullptr;
  Return (*memory_v2)(Device, MemoryV2*) = nullptr;
  Return (*memory)(Device, Memory*) = nullptr;
  Return (*power)(Device, unsigned*) = nullptr;
  Return (*clock)(Device, unsigned, unsigned*) = nullptr;
  Return (*temperature)(Device, unsigned, unsigned*) = nullptr;
  Return (*clock_reasons)(Device, unsigned long long*) = nullptr;
  Return (*fields)(Device, int, FieldValue*) = nullptr;
  Return (*processes)(Device, unsigned*, void*) = nullptr;      // _v3 or _v2
  Return (*old_processes)(Device, unsigned*, void*) = nullptr;  // without suffix
  Return (*gpm_support)(Device, GpmSupport*) = nullptr;
  Return (*gpm_alloc)(GpmSample*) = nullptr;
  Return (*gpm_free)(GpmSample) = nullptr;
  Return (*gpm_get)(Device, GpmSample) = nullptr;
  Return (*gpm_metrics)(GpmMetricsGet*) = nullptr;
};

class NvmlLibrary {
 public:
  // `path` as for dlopen. Gives a library or says in *failure why not.
  static std::unique_ptr<NvmlLibrary> load(const std::string& path, Failure* failure);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const Functions& calls() const { return calls_; }
  bool simulated() const { return simulated_; }  // exports rung_simulated

  // UUIDs of all devices by index, at most limits::kDevices; "" for a device that gives none.
  std::optional<std::vector<std::string>> enumerate(Failure* failure) const;

 private:
  NvmlLibrary() = default;
  void* handle_ = nullptr;
  Functions calls_;
  bool simulated_ = false;
};

// "GPU is lost" for 15; "code 77" for what we do not know.
std::string text_of(Return code);

// Whether a process that saw this code must end: only a new one can get answers again.
bool is_fatal(Return code);

}  // namespace rung::nvml
