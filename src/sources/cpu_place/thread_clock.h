// ThreadClock: samples one thread's user registers and the top of its stack through a perf software
// clock.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace rung {

class ThreadClock {
 public:
  struct Sample {
    std::int64_t mono_ns = 0;
    std::uint64_t instruction = 0;       // user; 0 when there is none
    std::vector<std::uint64_t> callers;  // as PlaceMap::in_cuda takes them
  };

  // One sample per `period_ns` of CPU time; room for at least `samples`. The kernel's share of the
  // thread's time is sampled as well unless that is not permitted. Errors: as CpuPlaceSampler.
  static Result<ThreadClock> open(pid_t tid, std::uint64_t period_ns, std::size_t samples);
  ThreadClock(ThreadClock&& other) noexcept;
  ThreadClock& operator=(ThreadClock&&) = delete;
  ThreadClock(const ThreadClock&) = delete;
  ThreadClock& operator=(const ThreadClock&) = delete;
  ~ThreadClock();

  // Stops the clock and gives all its samples. The thread may have ended.
  std::vector<Sample> finish();

 private:
  ThreadClock(Fd event, void* ring, std::size_t bytes);
  Fd event_;
  void* ring_;
  std::size_t bytes_;
};

}  // namespace rung
