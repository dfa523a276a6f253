// Every number that a rule compares with, and why it is what it is.
#pragma once

#include <chrono>
#include <cstdint>

#include "model/job_view.h"

namespace rung {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A rank or job that has done nothing for this long stands still. Below it lie the ordinary gaps of
// training: data loading, logging, small checkpoints. The name must be out within 10 s.
inline constexpr seconds kStallAfter{5};

// The same where the governor has launch probes off for part of the time: it turns them on at
// least once in 10 s, so only silence beyond one such period means anything.
inline constexpr seconds kStallAfterThinned{15};

// A stall is called a hang no earlier than this: long kernels, evaluations and slow file systems
// hold a healthy job for tens of seconds.
inline constexpr seconds kHangFloor{60};
// ... and no earlier than this many times the job's own p99.9 gap between two movements.
inline constexpr int kHangGaps = 3;

// Log lines, heartbeats and metrics files: below this rate a process moves no data.
inline constexpr std::uint64_t kNoiseBytesPerSecond = 16 << 10;

// Written within one activity window (10 s): no log is that fast, every checkpoint is faster.
inline constexpr std::uint64_t kCheckpointBytes = 4 << 20;

// Of one core. Interpreter housekeeping, watchdog and heartbeat threads use 1 to 3 %.
inline constexpr double kIdleCpuShare = 0.05;
// Of one core: a thread that waits inside CUDA by spinning uses nearly all of one.
inline constexpr double kSpinningCpuShare = 0.5;

// Percent of time that some kernel was resident: a waiting NCCL kernel shows as 100.
inline constexpr double kBusyUtilizationPercent = 5;

// A stopped process that runs again within this was only looked at (a sampling profiler stops its
// target for milliseconds).
inline constexpr seconds kStoppedAfter{2};

// Communicators of one job are made by all ranks within seconds of each other.
inline constexpr seconds kInitMissingWarning{10};
inline constexpr seconds kInitMissingError{60};

// A person or scheduler that ends a job signals all ranks at once; they die within this. After a
// first death a launcher needs longer than this only when ranks catch the signal.
inline constexpr seconds kTeardownSpread{1};

// How long after a wedge hosts go on to enqueue collectives: they run at host speed until the
// launch queue is full. A differing collective that the job survived longer than this was
// harmless.
inline constexpr seconds kMismatchRunAhead{10};

// A record lost this long before a rank's last seen movement cannot hide its next one.
inline constexpr seconds kLossMargin{2};

// A tick this late means that the observer itself stood still.
inline constexpr double kTickLateMs = 5000;
// Trouble of the observer matters to what began within this.
inline constexpr seconds kObserverMemory{60};

// When a stall may be called a hang.
inline std::chrono::nanoseconds hang_after(const JobView& view) {
  const std::chrono::nanoseconds gap =
      view.baseline.gap_p999.match([](std::chrono::nanoseconds known) { return known; },
                                   [](Unknown) { return std::chrono::nanoseconds(0); });
  return std::max<std::chrono::nanoseconds>(kHangFloor, gap * kHangGaps);
}

inline seconds stall_after(const RankView& rank) {
  return rank.launches_thinned ? kStallAfterThinned : kStallAfter;
}

}  // namespace rung
