#include "capability/doctor.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "abi/nccl_layout.h"
#include "base/files.h"
#include "base/strings.h"
#include "capability/nvml_search.h"
#include "sources/host_probes/ability.h"
#include "sources/procfs/procfs.h"

namespace rung {
namespace {

struct KnownCapability {
  int number;  // linux/capability.h
  const char* name;
  const char* purpose;
};
constexpr int kSysPtrace = 19;
constexpr std::array<KnownCapability, 5> kCapabilities = {{
    {39, "CAP_BPF", "host: load eBPF programs"},
    {38, "CAP_PERFMON", "host: attach probes, sample where CPU time goes"},
    {kSysPtrace, "CAP_SYS_PTRACE", "host, state: look into processes of other users"},
    {2, "CAP_DAC_READ_SEARCH", "host: read environments in /proc"},
    {40, "CAP_CHECKPOINT_RESTORE", "host: open the very files that a process maps"},
}};

constexpr int kNoAttachScope = 3;  // Yama: nobody may attach, and it cannot be undone

std::optional<std::uint64_t> effective_capabilities(const std::string& root) {
  const auto text = read_file(root + "/proc/self/status", 16384);
  if (!text) return std::nullopt;
  const auto status = parse_status(*text);
  return status ? std::optional(status->effective_caps) : std::nullopt;
}

std::optional<int> read_ptrace_scope(const std::string& root) {
  const auto text = read_file(root + "/proc/sys/kernel/yama/ptrace_scope", 16);
  return text ? parse_number<int>(trimmed(*text)) : std::nullopt;
}

bool is_accepted(const std::string& build_id, const DoctorRequest& request) {
  if (build_id.empty()) return false;
  const bool built_in =
      std::any_of(std::begin(abi::kAcceptedNccl), std::end(abi::kAcceptedNccl),
                  [&](const auto& accepted) { return accepted.build_id == build_id; });
  const auto& more = request.accepted_nccl;
  return built_in || std::find(more.begin(), more.end(), build_id) != more.end();
}

Result<void> look_at_process(const DoctorRequest& request, DoctorReport* report) {
  ProcFs procfs(request.root);
  const int pid = *request.pid;
  const auto libraries = procfs.mapped_libraries(pid);
  if (!libraries && libraries.error().code == ErrorCode::kNotFound) {
    return fail(ErrorCode::kNotFound, fmt::format("no process {}", pid),
                "give the pid of a running process as this host numbers it");
  }
  if (!libraries) {
    return fail(libraries.error().code, libraries.error().message,
                "run as its user or as root (CAP_SYS_PTRACE)");
  }
  for (const MappedLibrary& library : *libraries) {
    LibraryReport entry;
    entry.fingerprint.kind = library.kind;
    entry.fingerprint.path = printable(library.path);
    if (const auto facts = procfs.fingerprint(pid, library)) {
      entry.fingerprint = facts->fingerprint;
      report->simulated = report->simulated || facts->simulated;
    } else {
      entry.problem = facts.error().message;
    }
    if (library.kind == LibraryKind::kNccl) {
      entry.accepted = is_accepted(entry.fingerprint.build_id, request);
    }
    report->libraries.push_back(std::move(entry));
  }
  return {};
}

RungReport fleet(const DoctorReport& report, const std::string& root) {
  RungReport out;
  out.rung = Rung::kFleet;
  out.possible = ProcFs(root).list_pids().has_value();
  if (!out.possible) {
    out.reason = Reason::kNoPermission;
    out.message = "/proc cannot be read";
    out.hint = "mount /proc";
  } else if (!report.nvml || !report.nvidia_driver) {
    out.reason = Reason::kNoDevice;
    out.message = report.nvml ? "process state only: no NVIDIA driver is loaded"
                              : "process state only: no libnvidia-ml.so.1";
    out.hint = "install the NVIDIA driver, or set nvml.library in the agent's config";
  }
  return out;
}

bool maps(const DoctorReport& report, LibraryKind kind) {
  return std::any_of(report.libraries.begin(), report.libraries.end(),
                     [&](const auto& library) { return library.fingerprint.kind == kind; });
}

RungReport host(const DoctorReport& report, const HostProbeAbility& ability) {
  RungReport out;
  out.rung = Rung::kHost;
  out.possible = ability.possible;
  out.reason = ability.reason;
  out.message = ability.message;
  out.hint = ability.hint;
  const bool nothing_to_probe =
      report.pid && !maps(report, LibraryKind::kCuda) && !maps(report, LibraryKind::kNccl);
  if (out.possible && nothing_to_probe) {
    out.possible = false;
    out.reason = Reason::kNoLibrary;
    out.message = fmt::format("process {} maps neither libcuda nor libnccl", *report.pid);
    out.hint = "it may load them later; the agent looks again";
  }
  return out;
}

// Whether the memory of another process may be read.
void judge_memory_access(const DoctorReport& report, bool may_ptrace, RungReport* out) {
  out->reason = Reason::kNoPermission;
  if (report.ptrace_scope == kNoAttachScope) {
    out->message = "kernel.yama.ptrace_scope is 3: no process may read another's memory";
    out->hint = "it cannot be lowered before the next boot";
  } else if (!may_ptrace && report.ptrace_scope.value_or(0) > 0) {
    out->message = fmt::format("CAP_SYS_PTRACE is missing and kernel.yama.ptrace_scope is {}",
                               *report.ptrace_scope);
    out->hint = "run as root or with CAP_SYS_PTRACE";
  } else {
    out->possible = true;
    out->reason = may_ptrace ? Reason::kNone : Reason::kNoPermission;
    out->message = may_ptrace ? "this build reads the identity of communicators only"
                              : "only processes of the same user: CAP_SYS_PTRACE is missing";
    out->hint = may_ptrace ? "" : "run as root or with CAP_SYS_PTRACE";
  }
}

RungReport state(const DoctorReport& report, bool may_ptrace) {
  RungReport out;
  out.rung = Rung::kState;
  judge_memory_access(report, may_ptrace, &out);
  if (!out.possible || !report.pid) return out;
  const bool known = std::any_of(report.libraries.begin(), report.libraries.end(),
                                 [](const auto& library) { return library.accepted == true; });
  if (known) return out;
  const bool has_nccl = maps(report, LibraryKind::kNccl);
  out.possible = false;
  out.reason = has_nccl ? Reason::kUnknownBuild : Reason::kNoLibrary;
  out.message = has_nccl ? "the layout of this build of NCCL is not known"
                         : fmt::format("process {} maps no libnccl", *report.pid);
  out.hint = has_nccl ? "add its build-id to accepted_nccl in the agent's config once the layout "
                        "has been checked"
                      : "";
  return out;
}

RungReport not_built(Rung rung) {
  RungReport out;
  out.rung = rung;
  out.built = false;
  out.message = "not part of this build";
  return out;
}

}  // namespace

Result<DoctorReport> examine(const DoctorRequest& request) {
  DoctorReport report;
  std::string root = request.root;
  while (root.ends_with('/')) root.pop_back();
  utsname system{};
  if (::uname(&system) == 0) report.kernel = system.release;
  report.uid = ::geteuid();
  report.ptrace_scope = read_ptrace_scope(root);
  report.nvml = find_nvml(root, request.nvml_library);
  // A library that was named is believed to bring what it needs: the simulator's needs no driver.
  report.nvidia_driver = request.nvml_library.find('/') != std::string::npos ||
                         ::access((root + "/proc/driver/nvidia/version").c_str(), F_OK) == 0;
  const auto held = effective_capabilities(root);
  for (const KnownCapability& known : kCapabilities) {
    CapabilityReport capability{known.name, std::nullopt, known.purpose};
    if (held) capability.held = (*held >> known.number & 1) != 0;
    report.capabilities.push_back(std::move(capability));
  }
  if (request.pid) {
    report.pid = request.pid;
    if (auto looked = look_at_process(request, &report); !looked) {
      return tl::unexpected(looked.error());
    }
  }
  const HostProbeAbility ability = probe_ability(root.empty() ? "/" : root);
  for (const HostProbeAbility::Check& check : ability.checks) {
    report.checks.push_back({check.name, check.ok, check.required, check.detail});
  }
  const bool may_ptrace = held && (*held >> kSysPtrace & 1) != 0;
  report.rungs = {fleet(report, request.root), host(report, ability), state(report, may_ptrace)};
  for (const Rung rung : {Rung::kRas, Rung::kNccl, Rung::kDevice, Rung::kCounters}) {
    report.rungs.push_back(not_built(rung));
  }
  return report;
}

}  // namespace rung
