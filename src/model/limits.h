// Bounds of everything that foreign input could make grow. What goes over is counted, never lost
// silently.
#pragma once

#include <cstddef>

namespace rung::limits {

inline constexpr std::size_t kJobs = 256;              // live jobs of one node
inline constexpr std::size_t kEndedJobs = 64;          // ended jobs that still answer `why`
inline constexpr std::size_t kRanksPerNode = 512;      // processes with a slot in the probes
inline constexpr std::size_t kRanksPerJob = 131072;    // members that a rank set may hold
inline constexpr std::size_t kCommsPerRank = 256;      // communicators kept for one process
inline constexpr std::size_t kTailPerComm = 1024;      // newest collectives kept per (rank, comm)
inline constexpr std::size_t kThreadsPerRank = 64;     // threads whose last call is kept
inline constexpr std::size_t kDevices = 64;            // GPUs and MIG instances of one node
inline constexpr std::size_t kNameBytes = 256;         // longest foreign name kept
inline constexpr std::size_t kEnvironBytes = 1 << 20;  // of /proc/PID/environ
inline constexpr std::size_t kMapsBytes = 16 << 20;    // of /proc/PID/maps
inline constexpr std::size_t kProcesses = 65536;       // processes looked at in one scan of /proc

}  // namespace rung::limits
