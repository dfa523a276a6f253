#include "sources/nvml/process_list.h"

#include <algorithm>
#include <cstring>

#include "abi/nvml.h"

namespace rung::nvml {
namespace {

constexpr unsigned kMostPid = 1U << 22;  // PID_MAX_LIMIT of Linux, 64-bit
constexpr std::uint64_t kNotAvailable = ~std::uint64_t{0};

template <class T>
T read_at(const std::vector<std::byte>& bytes, std::size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool possible(unsigned pid) { return pid != 0 && pid <= kMostPid; }

// How many of the entries can be real at this distance.
std::size_t plausible(const std::vector<std::byte>& bytes, std::size_t count, std::size_t stride,
                      std::uint64_t memory_total) {
  std::size_t good = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto used =
        read_at<std::uint64_t>(bytes, i * stride + offsetof(ProcessInfo, used_gpu_memory));
    const bool fits = used == kNotAvailable || memory_total == 0 || used <= memory_total;
    good += possible(read_at<unsigned>(bytes, i * stride)) && fits;
  }
  return good;
}

std::vector<std::int32_t> pids_at(const std::vector<std::byte>& bytes, std::size_t count,
                                  std::size_t stride) {
  std::vector<std::int32_t> pids;
  for (std::size_t i = 0; i < count; ++i) {
    const auto pid = read_at<unsigned>(bytes, i * stride);
    if (possible(pid)) pids.push_back(static_cast<std::int32_t>(pid));
  }
  return pids;
}

}  // namespace

std::vector<std::int32_t> pids_of_list(const std::vector<std::byte>& bytes, std::size_t count,
                                       std::uint64_t memory_total) {
  count = std::min(count, bytes.size() / kProcessStrideWide);
  const bool wide = plausible(bytes, count, kProcessStride, memory_total) <
                    plausible(bytes, count, kProcessStrideWide, memory_total);
  return pids_at(bytes, count, wide ? kProcessStrideWide : kProcessStride);
}

std::vector<std::int32_t> pids_of_old_list(const std::vector<std::byte>& bytes, std::size_t count) {
  return pids_at(bytes, std::min(count, bytes.size() / kProcessStrideV1), kProcessStrideV1);
}

}  // namespace rung::nvml
