// Bounds of what views print, whatever a node holds. What goes over is summed and counted.
#pragma once

#include <cstddef>

namespace rung::limits {

inline constexpr std::size_t kTableRows = 16;       // rows of ranks in one text table
inline constexpr std::size_t kListLines = 24;       // evidence, gaps, notes: lines of one list
inline constexpr std::size_t kExportedJobs = 64;    // jobs with series of their own
inline constexpr std::size_t kExportedRanks = 512;  // ranks with series of their own, over all jobs
inline constexpr std::size_t kExportedDevices = 64;
inline constexpr std::size_t kExportedWorkers = 64;
inline constexpr std::size_t kSeriesPerRank = 40;  // with those of its device
inline constexpr std::size_t kLabelBytes = 128;    // of one label value

}  // namespace rung::limits
