// NVML as we need it: numbers and layouts of nvml.h (NVML API 13, 64-bit), without the header.
// Symbols are always looked up by their versioned names: the header hides them behind macros.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rung::nvml {

using Return = int;
inline constexpr Return kSuccess = 0;
inline constexpr Return kUninitialized = 1;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kNoPermission = 4;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kDriverNotLoaded = 9;
inline constexpr Return kLibraryNotFound = 12;
inline constexpr Return kFunctionNotFound = 13;
inline constexpr Return kGpuIsLost = 15;
inline constexpr Return kResetRequired = 16;
inline constexpr Return kOperatingSystem = 17;
inline constexpr Return kLibRmVersionMismatch = 18;
inline constexpr Return kUnknown = 999;

struct DeviceHandle;  // opaque
using Device = DeviceHandle*;
struct GpmSampleHandle;
using GpmSample = GpmSampleHandle*;  // one pointer, passed by value

inline constexpr unsigned kUuidBytes = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
inline constexpr unsigned kNameBytes = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE

inline constexpr unsigned kClockSm = 1;
inline constexpr unsigned kClockMemory = 2;
inline constexpr unsigned kTemperatureGpu = 0;

// Version tags of structs: size | version << 24.
constexpr unsigned version_tag(std::size_t size, unsigned version) {
  return static_cast<unsigned>(size) | version << 24;
}

struct Utilization {
  unsigned gpu;     // percent of the last sample window in which some kernel was resident
  unsigned memory;  // percent in which device memory was read or written
};
static_assert(sizeof(Utilization) == 8 && offsetof(Utilization, memory) == 4);

struct Memory {
  std::uint64_t total;
  std::uint64_t free;
  std::uint64_t used;  // with what the driver reserves
};
static_assert(sizeof(Memory) == 24 && offsetof(Memory, used) == 16);

struct MemoryV2 {
  unsigned version;
  std::uint64_t total;
  std::uint64_t reserved;
  std::uint64_t free;
  std::uint64_t used;
};
static_assert(sizeof(MemoryV2) == 40 && offsetof(MemoryV2, total) == 8 &&
              offsetof(MemoryV2, reserved) == 16 && offsetof(MemoryV2, free) == 24 &&
              offsetof(MemoryV2, used) == 32);
inline constexpr unsigned kMemoryV2Tag = version_tag(sizeof(MemoryV2), 2);
static_assert(kMemoryV2Tag == 0x2000028);

// Entries of the running-process lists: 16 bytes without suffix, 24 with _v2 and _v3; drivers
// 535.43 to 535.86 wrote 32 bytes from _v3.
struct ProcessInfo {
  unsigned pid;
  std::uint64_t used_gpu_memory;  // bytes; all ones when not available
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24 && offsetof(ProcessInfo, used_gpu_memory) == 8 &&
              offsetof(ProcessInfo, gpu_instance) == 16 &&
              offsetof(ProcessInfo, compute_instance) == 20);
inline constexpr std::size_t kProcessStrideV1 = 16;
inline constexpr std::size_t kProcessStride = sizeof(ProcessInfo);
inline constexpr std::size_t kProcessStrideWide = 32;

inline constexpr unsigned kFieldNvlinkTx = 138;  // KiB of data since driver load
inline constexpr unsigned kFieldNvlinkRx = 139;
inline constexpr unsigned kScopeAllLinks = 0xFFFFFFFF;

enum class ValueType : unsigned {
  kDouble = 0,
  kU32 = 1,
  kUnsignedLong = 2,
  kU64 = 3,
  kI64 = 4,
  kI32 = 5,
  kU16 = 6,
};

struct FieldValue {
  unsigned field;
  unsigned scope;
  std::int64_t timestamp_us;
  std::int64_t latency_us;
  unsigned value_type;
  Return result;
  union {
    double f64;
    std::uint16_t u16;
    std::uint32_t u32;
    std::int32_t i32;
    std::uint64_t u64;
    std::int64_t i64;
  } value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, scope) == 4 &&
              offsetof(FieldValue, timestamp_us) == 8 && offsetof(FieldValue, latency_us) == 16 &&
              offsetof(FieldValue, value_type) == 24 && offsetof(FieldValue, result) == 28 &&
              offsetof(FieldValue, value) == 32);

inline constexpr unsigned kGpmSmActive = 2;
inline constexpr unsigned kGpmSmOccupancy = 3;
inline constexpr unsigned kGpmTensorActive = 5;
inline constexpr unsigned kGpmDramActive = 10;

struct GpmSupport {
  unsigned version;  // 1
  unsigned is_supported;
};
static_assert(sizeof(GpmSupport) == 8 && offsetof(GpmSupport, is_supported) == 4);

struct GpmMetric {
  unsigned id;
  Return result;
  double value;
  const char* names[3];
};
static_assert(sizeof(GpmMetric) == 40 && offsetof(GpmMetric, result) == 4 &&
              offsetof(GpmMetric, value) == 8 && offsetof(GpmMetric, names) == 16);

// The bound of the array differs between releases of the header (98, 210, 333): the largest is
// given, so that a library that touches all of its own finds memory there.
inline constexpr std::size_t kGpmMostMetrics = 333;
struct GpmMetricsGet {
  unsigned version;  // 1
  unsigned count;
  GpmSample before;
  GpmSample after;
  GpmMetric metrics[kGpmMostMetrics];
};
static_assert(sizeof(GpmMetricsGet) == 24 + 40 * kGpmMostMetrics &&
              offsetof(GpmMetricsGet, count) == 4 && offsetof(GpmMetricsGet, before) == 8 &&
              offsetof(GpmMetricsGet, after) == 16 && offsetof(GpmMetricsGet, metrics) == 24);

}  // namespace rung::nvml
