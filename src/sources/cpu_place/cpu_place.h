// CpuPlaceSampler: where a process spends its CPU time. A rank that waits in NCCL or in a
// synchronisation spins inside the CUDA libraries; one that works spends its time elsewhere.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <vector>

#include "base/result.h"
#include "model/observation.h"

namespace rung {

// Samples the user instruction pointer of each thread through a perf software clock at 50 Hz of
// its CPU time.
//
// `in_cuda` counts the samples whose user instruction pointer lies in libcuda, libcudart, libnccl
// or the vDSO (where clock_gettime, which spinning code calls, spends its time). For time in the
// kernel on behalf of the thread it is the instruction that entered the kernel. Code of libc, also
// the wrapper of a system call (sched_yield, ioctl, poll), belongs to its caller: the first word of
// the stack, within 192 bytes of its top, that points into other executable code; where there is
// none the sample counts as not in CUDA. This is no unwinding: a stale return address in a libc
// frame can mislead it. Where the kernel may not be sampled (no CAP_PERFMON), time inside system
// calls is missing from `samples` altogether.
class CpuPlaceSampler {
 public:
  static constexpr std::size_t kMostThreads = 64;
  static constexpr int kHertz = 50;

  // Begins; the window ends by itself after `duration`. Of more than kMostThreads threads the
  // first ones are taken. A thread that is gone is left out. Does not block. Errors: kNoPermission
  // (needs CAP_PERFMON, or the same user and perf_event_paranoid <= 2), kNotFound (no such process
  // or none of its threads), kUnavailable.
  static Result<std::unique_ptr<CpuPlaceSampler>> start(pid_t pid, const std::vector<pid_t>& tids,
                                                        std::chrono::nanoseconds duration);
  ~CpuPlaceSampler();
  CpuPlaceSampler(const CpuPlaceSampler&) = delete;
  CpuPlaceSampler& operator=(const CpuPlaceSampler&) = delete;

  // Whether the window is over.
  bool done() const;

  // What was sampled until now; ends the window if it is still open. `window` is the time that was
  // really sampled.
  CpuPlace finish();

 private:
  class Impl;
  explicit CpuPlaceSampler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rung
