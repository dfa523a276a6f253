// The process lists of NVML, whose entries differ in size between drivers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rung::nvml {

// The pids in `count` entries that a _v2 or _v3 call wrote to `bytes`, which holds at least
// count * kProcessStrideWide bytes and was zero before. Entries are 24 bytes apart, or 32 with the
// drivers that wrote those: told by pids or sizes that cannot be. `memory_total` is that of the
// device, 0 when unknown. Impossible pids are left out.
std::vector<std::int32_t> pids_of_list(const std::vector<std::byte>& bytes, std::size_t count,
                                       std::uint64_t memory_total);

// The same for the oldest call, without suffix: 16 bytes apart.
std::vector<std::int32_t> pids_of_old_list(const std::vector<std::byte>& bytes, std::size_t count);

}  // namespace rung::nvml
