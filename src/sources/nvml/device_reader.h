// DeviceReader: one look at one device through NVML. What a device does not support is absent from
// the sample.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "model/observation.h"
#include "sources/nvml/library.h"

namespace rung::nvml {

class DeviceReader {
 public:
  DeviceReader(const NvmlLibrary& library, int index);
  ~DeviceReader();
  DeviceReader(const DeviceReader&) = delete;
  DeviceReader& operator=(const DeviceReader&) = delete;

  // Nothing, and *failure, when the device is lost or cannot be opened.
  std::optional<DeviceSample> read(Failure* failure);

 private:
  // Remembers a code after which the sample must not be believed; true for success.
  bool good(const char* call, Return code);
  bool open();
  void read_basics(DeviceSample* sample);
  void read_memory(DeviceSample* sample);
  void read_nvlink(DeviceSample* sample);
  void read_processes(DeviceSample* sample);
  bool prepare_gpm();
  void read_gpm(DeviceSample* sample);

  const NvmlLibrary& library_;
  const Functions& calls_;
  int index_;
  Device device_ = nullptr;
  std::string uuid_;
  std::string name_;
  std::optional<Failure> fatal_;

  std::optional<bool> gpm_supported_;
  GpmSample gpm_before_ = nullptr;
  GpmSample gpm_after_ = nullptr;
  std::int64_t gpm_before_ns_ = 0;  // monotonic time of gpm_before_, 0: not taken
};

}  // namespace rung::nvml
