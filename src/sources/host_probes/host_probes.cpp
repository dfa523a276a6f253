#include "sources/host_probes/host_probes.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/clock.h"
#include "sources/host_probes/host_probes_impl.h"
#include "sources/host_probes/process_view.h"

namespace rung {
namespace {

constexpr std::uint32_t kCanarySlot = RUNG_PROBE_SLOTS - 1;

// Kernels that emulate multi-byte nops under a uprobe; measured on 6.18.
bool kernel_emulates_long_nops() {
  utsname name{};
  if (uname(&name) != 0) return false;
  int major = 0, minor = 0;
  if (std::sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
  return std::pair(major, minor) >= std::pair(6, 18);
}

Result<void> check(const HostProbesConfig& config) {
  if (config.canary_executable.empty()) {
    return fail(ErrorCode::kUsage, "the host probes were given no canary program");
  }
  for (const AcceptedNcclBuild& build : config.accepted) {
    if (layout_number(build.layout, true) != 0) continue;
    return fail(ErrorCode::kUsage, fmt::format("no ncclComm layout '{}' is known", build.layout),
                "name an NCCL release from 2.23.4 on, as in \"2.28.9\"");
  }
  const auto page = static_cast<std::size_t>(getpagesize());
  if (config.ring_bytes < page || (config.ring_bytes & (config.ring_bytes - 1)) != 0 ||
      config.ring_bytes > (std::size_t{1} << 30)) {
    return fail(ErrorCode::kUsage, "the event ring must be a power of two, from a page to 1 GiB");
  }
  return {};
}

}  // namespace

CommTracker tracker_of(int pid, std::span<const rung_comm_layout> layouts) {
  return CommTracker(layouts, [pid](std::uint64_t address, void* out, std::size_t bytes) {
    return read_process_memory(pid, address, out, bytes);
  });
}

std::uint64_t all_calls(const rung_counters& counters) {
  std::uint64_t sum = 0;
  for (const std::uint64_t entered : counters.entered) sum += entered;
  return sum;
}

Reason reason_of(const Error& error) {
  if (error.code == ErrorCode::kNoPermission) return Reason::kNoPermission;
  if (error.code == ErrorCode::kNotFound) return Reason::kProcessGone;
  return Reason::kNoKernelSupport;
}

HostProbes::Impl::Impl(const HostProbesConfig& config, std::unique_ptr<ProbePrograms> programs,
                       bool multi)
    : programs_(std::move(programs)),
      config_(config),
      root_(config.proc_root == "/" ? "" : config.proc_root),
      multi_(multi),
      long_nops_(kernel_emulates_long_nops()),
      by_slot_(RUNG_PROBE_SLOTS, nullptr) {
  for (std::uint32_t slot = 0; slot < RUNG_PROBE_SLOTS; ++slot) free_slots_.push_back(slot);
}

CanaryResult& HostProbes::Impl::run_the_canary() {
  const auto attach = [this](int program) {
    return [this, program](int pid, std::uint64_t offset) -> Result<std::function<void()>> {
      rung_process entry{};
      entry.slot = kCanarySlot;
      entry.links[0] = kCanaryLink;
      if (auto set = programs_->set_process(static_cast<std::uint32_t>(pid), entry); !set) {
        return tl::unexpected(set.error());
      }
      auto links = attach_probes(program, multi_, config_.canary_executable,
                                 {{offset, RUNG_COOKIE(0, 0, kCanaryLink)}});
      if (!links) return tl::unexpected(links.error());
      auto held = std::make_shared<ProbeLinks>(std::move(*links));
      return std::function<void()>([this, pid, held]() mutable {
        held->links.clear();
        programs_->erase_process(static_cast<std::uint32_t>(pid));
      });
    };
  };
  canary_ = run_canary(config_.canary_executable, {{"cuda", attach(programs_->cuda_program())},
                                                   {"nccl", attach(programs_->nccl_program())}});
  for (const auto& [tid, thread] : programs_->threads()) programs_->erase_thread(tid);
  programs_->begin_tick(boot_now_ns(), kExecHintsPerTick);
  return canary_;
}

RungCoverage HostProbes::Impl::coverage(const Watched& process) const {
  RungCoverage out;
  out.rung = Rung::kHost;
  out.since = process.since;
  out.lost = process.lost;
  out.reason = process.problem;
  out.detail = process.problem_detail;
  if (process.refused) {
    out.stage = Stage::kRefused;
    return out;
  }
  if (process.files.empty()) {
    out.stage = process.problem == Reason::kNone ? Stage::kRequested : Stage::kRefused;
    if (process.problem == Reason::kNone) out.reason = Reason::kNoLibrary;
    return out;
  }
  out.stage = process.flowing ? Stage::kFlowing : Stage::kAttached;
  for (const std::uint32_t id : process.files) {
    const ProbedFile* file = file_by_id(id);
    if (file == nullptr || !file->governor.thinned()) continue;
    out.reason = Reason::kOverBudget;
    const std::string thinned =
        fmt::format("launch probes on {:.1f} % of the time", file->governor.percent_on());
    out.detail = out.detail.empty() ? thinned : thinned + "; " + out.detail;
  }
  return out;
}

bool HostProbes::Impl::governs_early() const {
  return std::any_of(files_.begin(), files_.end(), [](const ProbedFile& file) {
    return file.has_launches() && !file.users.empty() && file.governor.on() &&
           (file.governor.thinned() || !file.governor.asked());
  });
}

ProbeTotals HostProbes::Impl::totals() const {
  ProbeTotals out;
  out.processes = processes_.size();
  out.files = files_.size();
  for (const ProbedFile& file : files_) {
    out.links += file.links();
    out.functions += file.functions();
    out.thinned = out.thinned || file.governor.thinned();
  }
  const auto drops = programs_->drops();
  out.hits_unwatched = drops[RUNG_DROP_NO_SLOT];
  out.hits_other_link = drops[RUNG_DROP_OTHER_LINK];
  out.threads_full = drops[RUNG_DROP_THREADS_FULL];
  out.peers_full = drops[RUNG_DROP_PEERS_FULL];
  out.groups_full = drops[RUNG_DROP_GROUP_FULL];
  out.ring_lost = drops[RUNG_DROP_RING_FULL];
  out.process_events_lost = drops[RUNG_DROP_EXEC_LIMIT] + process_events_lost_;
  out.threads_over_bound = threads_over_bound_;
  out.unreadable = drops[RUNG_DROP_UNREADABLE];
  out.comms_over_bound = comms_over_bound_gone_;
  for (const auto& [key, process] : processes_) {
    out.comms_over_bound += process->tracker.over_bound();
  }
  out.threads_over_bound = threads_over_bound_;
  out.short_lived = programs_->short_lived();
  out.cost_ns = canary_.cost_ns;
  out.highest_share = highest_share_;
  out.last_attach = last_attach_;
  out.last_detach = last_detach_;
  out.multi_links = multi_;
  return out;
}

Result<std::unique_ptr<HostProbes>> HostProbes::open(const HostProbesConfig& config, Reason* why) {
  const auto because = [&](Reason reason, Error error) {
    if (why != nullptr) *why = reason;
    return tl::unexpected(std::move(error));
  };
  if (auto checked = check(config); !checked) return because(Reason::kInternal, checked.error());
  const HostProbeAbility ability = probe_ability(config.proc_root);
  if (!ability.possible) {
    const auto code = ability.reason == Reason::kNoPermission ? ErrorCode::kNoPermission
                                                              : ErrorCode::kUnavailable;
    return because(ability.reason, Error{code, ability.message, ability.hint});
  }
  const bool multi = ability.uprobe_multi && !config.force_perf_fallback;
  if (!multi && !config.allow_perf_fallback) {
    return because(Reason::kNoKernelSupport,
                   Error{ErrorCode::kUnavailable, "the kernel has no multi-uprobe links",
                         "Linux 6.6 or newer, or allow the fallback"});
  }
  ProbePrograms::Options options;
  options.ring_bytes = config.ring_bytes;
  options.multi = multi;
  auto programs = ProbePrograms::load(options);
  if (!programs) return because(reason_of(programs.error()), programs.error());
  if (auto attached = (*programs)->attach_process_events(); !attached) {
    return because(reason_of(attached.error()), attached.error());
  }
  auto impl = std::make_unique<Impl>(config, std::move(*programs), multi);
  const CanaryResult& canary = impl->run_the_canary();
  if (!canary.passed) {
    std::string failed;
    for (const auto& mode : canary.modes) {
      if (!mode.passed)
        failed += fmt::format("{}{}: {}", failed.empty() ? "" : ", ", mode.name, mode.detail);
    }
    return because(
        Reason::kCanaryFailed,
        Error{ErrorCode::kUnavailable, "the canary did not survive the probes: " + failed,
              "this kernel's uprobes are not safe here; the host rung stays off"});
  }
  return std::unique_ptr<HostProbes>(new HostProbes(std::move(impl)));
}

HostProbes::HostProbes(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HostProbes::~HostProbes() = default;

Result<void> HostProbes::watch(const ProcessKey& key, int pid) { return impl_->watch(key, pid); }
void HostProbes::unwatch(const ProcessKey& key) { impl_->unwatch(key); }
int HostProbes::event_fd() const { return impl_->programs_->event_fd(); }
void HostProbes::drain(UnixNs now, std::vector<Observation>& out) { impl_->drain(now, out); }
void HostProbes::govern(UnixNs now, std::vector<Observation>& out) { impl_->govern(now, out); }
bool HostProbes::governs_early() const { return impl_->governs_early(); }

ProbeTotals HostProbes::totals() const { return impl_->totals(); }
const CanaryResult& HostProbes::canary() const { return impl_->canary_; }

std::vector<ProcessEvent> HostProbes::take_process_events() {
  return std::exchange(impl_->process_events_, {});
}

std::vector<RungCoverage> HostProbes::coverage(const ProcessKey& key, UnixNs now) const {
  const auto found = impl_->processes_.find(key);
  if (found != impl_->processes_.end()) return {impl_->coverage(*found->second)};
  RungCoverage none;
  none.rung = Rung::kHost;
  none.stage = Stage::kNotRequested;
  none.since = now;
  return {none};
}

}  // namespace rung
