// The canary: a process of our own that must survive each probe type before a workload meets it,
// and on which the cost of a hit is measured.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace rung {

// What the hidden command `canary MODE N` runs; `argv` begins at MODE. Modes: where (prints the
// file offset of the probed function), plain, seccomp, threads, exec. All but `where` write a line
// when they are ready, wait for a byte on stdin, call the function N times, and exit 0 if every
// call did its work.
int canary_main(int argc, char** argv);

struct CanaryResult {
  struct Mode {
    std::string name;
    bool passed = false;
    std::string detail;  // how it ended, when it did not pass
  };
  std::vector<Mode> modes;  // one for each (mode, program)
  bool passed = false;      // all of them
  double cost_ns = 0;       // of one hit with all its bookkeeping: with probe minus without
};

// A kind of probe to try. `attach` is called with the waiting canary's pid and the file offset of
// its function, and gives a function that detaches, or an error.
struct CanaryProbe {
  std::string name;
  std::function<Result<std::function<void()>>(int pid, std::uint64_t file_offset)> attach;
};

// Tries each probe in each mode and, if all pass, calibrates with the first.
CanaryResult run_canary(const std::string& executable, const std::vector<CanaryProbe>& probes);

}  // namespace rung
