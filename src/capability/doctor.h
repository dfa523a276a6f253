// Doctor: what each rung of evidence could do on this host and, if asked, for one process; and why
// not. It looks and changes nothing; the only thing it tries is making a small eBPF map.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/coverage.h"
#include "model/observation.h"

namespace rung {

struct DoctorRequest {
  std::string root = "/";    // where /proc, /sys, /etc and /usr lie
  std::optional<int> pid;    // also look at this process
  std::string nvml_library;  // as in the agent's config; "" for libnvidia-ml.so.1
  // Build-ids, lower-case hex, of NCCL builds whose memory layout is known, besides the built-in
  // ones.
  std::vector<std::string> accepted_nccl;
};

struct RungReport {
  Rung rung = Rung::kFleet;
  bool possible = false;
  bool built = true;              // false: this build has no such rung
  Reason reason = Reason::kNone;  // why not; of a possible rung, what it has to do without
  std::string message;            // the reason in words; "" when there is nothing to say
  std::string hint;               // what a person could do about it
};

struct CapabilityReport {
  std::string name;          // "CAP_BPF"
  std::optional<bool> held;  // in the effective set; unknown when /proc cannot be read
  std::string purpose;
};

struct CheckReport {
  std::string name;  // "btf", "uprobe_multi"...
  bool ok = false;
  bool required = true;
  std::string detail;
};

struct LibraryReport {
  LibraryFingerprint fingerprint;
  std::optional<bool> accepted;  // NCCL: whether its layout is known; absent for other libraries
  std::string problem;           // why the file could not be read; "" when it was
};

struct DoctorReport {
  std::string kernel;  // release
  std::uint32_t uid = 0;
  std::vector<RungReport> rungs;  // fleet, host, state, ras, nccl, device, counters
  std::vector<CapabilityReport> capabilities;
  std::vector<CheckReport> checks;  // of the kernel, for the host rung
  std::optional<int> ptrace_scope;  // Yama; absent when the kernel has none
  std::optional<std::string> nvml;  // path of the NVML library
  bool nvidia_driver = false;       // loaded
  std::optional<int> pid;
  std::vector<LibraryReport> libraries;  // of the process
  bool simulated = false;                // they are the simulator's
};

// Errors: kNotFound and kNoPermission for the process asked for. What is missing on the host is no
// error but part of the report.
Result<DoctorReport> examine(const DoctorRequest& request);

// One JSON object, schema rung.doctor/1.
std::string doctor_json(const DoctorReport& report);

// For people; several lines. `colour`: with ANSI colours.
std::string doctor_text(const DoctorReport& report, bool colour);

}  // namespace rung
