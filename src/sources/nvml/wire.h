// What the agent and a vendor worker say to each other: one fixed struct a datagram, over a
// SOCK_SEQPACKET socket pair of one host, so in its byte order. The agent believes nothing of an
// answer that it has not checked: the vendor library may have damaged the worker's memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/limits.h"
#include "model/observation.h"

namespace rung::vendor {

// Changes with every change of a struct below: a worker of another build is refused by it.
inline constexpr std::uint32_t kVersion = 0x52565701;  // "RVW", 1

enum class Ask : std::uint32_t { kEnumerate = 1, kSample = 2 };

struct Request {
  std::uint32_t version = kVersion;
  Ask ask = Ask::kSample;
  std::uint64_t number = 0;  // comes back in the answer
};

enum class Status : std::uint32_t {
  kOk = 0,
  kNoLibrary = 1,  // the library cannot be loaded
  kNoDriver = 2,   // it says that there is no driver or no device
  kError = 3,      // an NVML call failed; the worker ends, since only a new process recovers
};

struct Device {
  std::array<char, 96> uuid{};
};

// Numbers that a sample may or may not have; bit i of `present` says whether numbers[i] counts.
enum class Number : std::uint32_t {
  kUtilizationPercent,
  kMemoryUsedBytes,
  kMemoryTotalBytes,
  kPowerWatts,
  kSmClockMhz,
  kMemoryClockMhz,
  kTemperatureCelsius,
  kClockEventReasons,
  kSmActivePercent,
  kSmOccupancyPercent,
  kTensorActivePercent,
  kDramActivePercent,
  kNvlinkTxKib,
  kNvlinkRxKib,
  kCount,
};
inline constexpr std::size_t kNumbers = static_cast<std::size_t>(Number::kCount);
inline constexpr std::size_t kMostPids = 256;

struct Sample {
  Device device;
  std::array<char, 96> name{};
  std::int32_t index = -1;
  std::uint32_t present = 0;
  std::array<double, kNumbers> reals{};            // of those that are fractions
  std::array<std::uint64_t, kNumbers> integers{};  // of bytes, KiB and bit masks
  std::uint32_t pid_count = 0;
  std::array<std::int32_t, kMostPids> pids{};
};

struct Answer {
  std::uint32_t version = kVersion;
  Ask ask = Ask::kSample;
  std::uint64_t number = 0;
  Status status = Status::kOk;
  std::int32_t code = 0;  // nvmlReturn_t of what failed
  std::array<char, 160> detail{};
  std::uint32_t simulated = 0;
  std::uint32_t device_count = 0;  // for kEnumerate
  std::array<Device, limits::kDevices> devices{};
  Sample sample;  // for kSample
};

// Text in and out of the fixed fields; cut where it does not fit, always ended by NUL.
template <std::size_t N>
void put(std::array<char, N>* field, std::string_view text) {
  field->fill('\0');
  text.copy(field->data(), N - 1);
}
template <std::size_t N>
std::string take(const std::array<char, N>& field) {
  const std::string_view all(field.data(), N);
  return std::string(all.substr(0, all.find('\0')));
}

Sample to_wire(const DeviceSample& sample);
DeviceSample from_wire(const Sample& wire, bool simulated);

// An answer from received bytes; nothing when its size, version or counts are wrong.
std::optional<Answer> checked_answer(const void* bytes, std::size_t size);

}  // namespace rung::vendor
