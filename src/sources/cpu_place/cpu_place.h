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
// What counts as `in_cuda`: an instruction inside libcuda, libcudart, libnccl or the vDSO (where
// clock_gettime, which spinning code calls, spends its time). Two cases cannot be told apart by
// the instruction pointer alone and are decided by the thread's last sample elsewhere in user
// code, that is by where the thread comes from: code of libc (sched_yield, memcpy, a lock) and
// time in the kernel on behalf of the thread. Without such a sample before them they count as not
// in CUDA: a rank is called inactive only when it was seen inside CUDA.
class CpuPlaceSampler {
 public:
  static constexpr std::size_t kMostThreads = 64;

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
