// What the virtual devices of the run folder look like through NVML.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rung::sim {

inline constexpr std::uint64_t kMemoryTotal = 150754820096;  // H200: 143771 MiB
inline constexpr std::uint64_t kMemoryReserved = 650 << 20;  // what the driver keeps
inline constexpr unsigned kNvLinks = 18;

struct ProcessMemory {
  unsigned pid;
  std::uint64_t bytes;
};

// Cumulative since the run folder was made.
struct Snapshot {
  std::int64_t at_ns = 0;
  std::int64_t any_ns = 0;      // some kernel resident
  std::int64_t compute_ns = 0;  // a kernel that is not a collective resident
  std::uint64_t nvlink_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::vector<ProcessMemory> processes;
};

Snapshot snapshot(int device);

// Share of time between two snapshots, in [0, 1].
struct Load {
  double any = 0;
  double compute = 0;
};
Load load_between(const Snapshot& before, const Snapshot& after);
// Load since this process asked last, over at least 100 ms as the real sample window.
Load recent_load(int device);

// Applies the control file to one call: blocks, and gives the nvmlReturn_t to return if it is an
// injected error.
std::optional<int> gate(std::string_view function, std::optional<int> device);
// A value that the control file sets, or `otherwise`.
unsigned setting(std::string_view quantity, int device, double otherwise);

}  // namespace rung::sim
