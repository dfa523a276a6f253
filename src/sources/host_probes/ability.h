// What this kernel and this process could do for the host probes, and why not.
#pragma once

#include <string>
#include <vector>

#include "model/coverage.h"

namespace rung {

struct HostProbeAbility {
  struct Check {
    std::string name;  // "CAP_BPF", "btf", "bpf_syscall", "uprobe_multi", "map_files"...
    bool ok = false;
    bool required = true;  // without it there are no host probes at all
    std::string detail;    // what was found, for people
  };
  std::vector<Check> checks;
  bool possible = false;          // every required check passed
  bool uprobe_multi = false;      // many probes in one link: attach and detach in milliseconds
  Reason reason = Reason::kNone;  // of the first required check that failed
  std::string message;            // one line, "" when possible
  std::string hint;               // what to do about it
};

// Tries: capabilities by name, BTF, a small BPF map, and whether the kernel knows multi-uprobe
// links. `proc_root` is where /proc and /sys lie, "/" normally. Leaves nothing behind.
HostProbeAbility probe_ability(const std::string& proc_root = "/");

}  // namespace rung
