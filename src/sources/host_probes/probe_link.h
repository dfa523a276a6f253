// Attaches an eBPF program to functions of a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace rung {

struct ProbeTarget {
  std::uint64_t file_offset = 0;
  std::uint64_t cookie = 0;
};

// Attached probes; closing the descriptors takes them off.
struct ProbeLinks {
  std::vector<Fd> links;
  std::vector<std::uint64_t> refused;  // cookies of targets that the kernel would not probe
};

// One link for all targets where `multi` is set (BPF_TRACE_UPROBE_MULTI, Linux 6.6), else one perf
// event and link each. The program must have been loaded for that kind. `path` names the file; the
// probes stay with its inode, in every process that maps it.
// Errors: kNoPermission, kNotFound, kUnavailable; then nothing is attached.
Result<ProbeLinks> attach_probes(int program_fd, bool multi, const std::string& path,
                                 const std::vector<ProbeTarget>& targets);

// Whether the kernel knows multi-uprobe links.
bool kernel_has_uprobe_multi();

inline constexpr std::uint32_t kTraceUprobeMulti = 48;  // BPF_TRACE_UPROBE_MULTI, linux/bpf.h 6.6

}  // namespace rung
