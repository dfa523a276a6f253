// What a rank that stands still is doing outside the device's view: writing, working, nothing, or
// not to be told.
#pragma once

#include <string>
#include <vector>

#include "model/job_view.h"
#include "model/verdict.h"

namespace rung {

struct Doing {
  enum class What : std::uint8_t {
    kWriting,   // its written bytes move as a checkpoint's do
    kActive,    // I/O, a child compiler, or CPU outside CUDA
    kInactive,  // known to do none of these
    kUnclear,   // some of it is not known
  };
  What what = What::kUnclear;
  std::string why;          // "it read 12 MiB in 10.0 s", "where it spends its CPU is unknown"
  std::vector<Fact> facts;  // those that speak for it
};
Doing doing_of(const RankView& rank);

// Spins inside CUDA: busy, and known not to be so anywhere else.
bool spins_in_cuda(const RankView& rank);

// Its device runs something, known or not known.
Known<bool> device_busy(const RankView& rank);

// False only when no thread's last call is one that can block on the device.
bool may_block_on_device(const RankView& rank);

}  // namespace rung
