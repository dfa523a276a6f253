#include "sources/host_probes/ability.h"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/fd.h"
#include "base/files.h"
#include "base/strings.h"
#include "sources/host_probes/probe_link.h"

namespace rung {
namespace {

// linux/capability.h; the newer numbers are missing in old headers.
constexpr int kDacReadSearch = 2;
constexpr int kSysPtrace = 19;
constexpr int kSysAdmin = 21;
constexpr int kPerfmon = 38;
constexpr int kBpf = 39;
constexpr int kCheckpointRestore = 40;

std::optional<std::uint64_t> effective_capabilities(const std::string& proc_root) {
  const auto status = read_file(proc_root + "/proc/self/status", 16384);
  if (!status) return std::nullopt;
  for (const std::string_view line : split(*status, '\n')) {
    if (!line.starts_with("CapEff:")) continue;
    return parse_number<std::uint64_t>(trimmed(line.substr(7)), 16);
  }
  return std::nullopt;
}

class Checklist {
 public:
  explicit Checklist(HostProbeAbility& ability) : ability_(ability) {}

  void add(std::string name, bool ok, bool required, std::string detail, Reason reason,
           std::string hint) {
    if (!ok && required && ability_.reason == Reason::kNone) {
      ability_.reason = reason;
      ability_.message = fmt::format("host probes: {} is missing: {}", name, detail);
      ability_.hint = std::move(hint);
    }
    ability_.checks.push_back({std::move(name), ok, required, std::move(detail)});
  }

  void capability(std::uint64_t held, const char* name, int number, bool admin_suffices,
                  const char* purpose) {
    const bool own = (held >> number & 1) != 0;
    const bool admin = admin_suffices && (held >> kSysAdmin & 1) != 0;
    add(name, own || admin, true,
        own ? "held" : (admin ? "covered by CAP_SYS_ADMIN" : fmt::format("needed {}", purpose)),
        Reason::kNoPermission,
        fmt::format("run as root or give the agent {} (AmbientCapabilities= in its unit)", name));
  }

 private:
  HostProbeAbility& ability_;
};

void check_capabilities(const std::string& proc_root, Checklist& list) {
  const auto held = effective_capabilities(proc_root);
  if (!held) {
    list.add("capabilities", false, true, "/proc/self/status cannot be read", Reason::kNoPermission,
             "mount /proc");
    return;
  }
  list.capability(*held, "CAP_BPF", kBpf, true, "to load eBPF programs");
  list.capability(*held, "CAP_PERFMON", kPerfmon, true, "to attach probes");
  list.capability(*held, "CAP_SYS_PTRACE", kSysPtrace, false, "to look into other processes");
  list.capability(*held, "CAP_DAC_READ_SEARCH", kDacReadSearch, false, "to read /proc of others");
  list.capability(*held, "CAP_CHECKPOINT_RESTORE", kCheckpointRestore, true,
                  "to open /proc/PID/map_files");
}

void check_bpf_system_call(Checklist& list) {
  const Fd map(bpf_map_create(BPF_MAP_TYPE_RINGBUF, "rung_try", 0, 0,
                              static_cast<std::uint32_t>(getpagesize()), nullptr));
  const int error = errno;
  const bool refused = error == EPERM || error == EACCES;
  list.add("bpf_ring_buffer", map.valid(), true, map.valid() ? "works" : std::strerror(error),
           refused ? Reason::kNoPermission : Reason::kNoKernelSupport,
           refused
               ? "seccomp or lockdown forbids bpf(2); run outside the container's default profile"
               : "needs Linux 5.8 or newer with CONFIG_BPF_SYSCALL");
}

void check_btf(const std::string& proc_root, Checklist& list) {
  const std::string path = proc_root + "/sys/kernel/btf/vmlinux";
  const bool readable = access(path.c_str(), R_OK) == 0;
  list.add("btf", readable, true, readable ? path : path + " cannot be read",
           Reason::kNoKernelSupport, "needs a kernel with CONFIG_DEBUG_INFO_BTF");
}

void check_uprobes(HostProbeAbility& ability, Checklist& list) {
  ability.uprobe_multi = kernel_has_uprobe_multi();
  list.add("uprobe_multi", ability.uprobe_multi, false,
           ability.uprobe_multi ? "many probes in one link"
                                : "one perf event for each probe: slow to take off again",
           Reason::kNoKernelSupport, "Linux 6.6 or newer has it");
  const bool perf = access("/sys/bus/event_source/devices/uprobe/type", R_OK) == 0;
  list.add("uprobes", perf || ability.uprobe_multi, true, perf ? "perf uprobe events" : "absent",
           Reason::kNoKernelSupport, "needs a kernel with CONFIG_UPROBE_EVENTS");
}

}  // namespace

HostProbeAbility probe_ability(const std::string& proc_root) {
  HostProbeAbility ability;
  Checklist list(ability);
  const std::string root = proc_root == "/" ? "" : proc_root;
#if defined(__x86_64__)
  list.add("architecture", true, true, "x86-64", Reason::kNone, "");
#else
  list.add("architecture", false, true, "probes are accepted on x86-64 only",
           Reason::kForeignArchitecture, "");
#endif
  check_capabilities(root, list);
  check_bpf_system_call(list);
  check_btf(root, list);
  check_uprobes(ability, list);
  ability.possible = ability.reason == Reason::kNone;
  return ability;
}

}  // namespace rung
