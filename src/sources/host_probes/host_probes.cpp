#include "sources/host_probes/host_probes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/files.h"
#include "base/strings.h"
#include "model/limits.h"
#include "sources/host_probes/comm_tracker.h"
#include "sources/host_probes/function_table.h"
#include "sources/host_probes/library_scan.h"
#include "sources/host_probes/probe_programs.h"
#include "sources/host_probes/probed_file.h"
#include "sources/host_probes/process_view.h"

namespace rung {
namespace {

static_assert(limits::kRanksPerNode == RUNG_PROBE_SLOTS);

constexpr std::uint32_t kCanaryLink = 1;  // link ids of library files come after it
constexpr std::uint32_t kCanarySlot = RUNG_PROBE_SLOTS - 1;
constexpr std::uint64_t kExecHintsPerTick = 256;
constexpr std::size_t kMostProcessEvents = 4096;
// Probes of a file outlive its last process a little: the next rank of a restarting job needs them.
constexpr std::int64_t kLingerNs = 5'000'000'000;
// A thread whose last call is younger than this is busy; its state is not worth a read of /proc.
constexpr std::int64_t kStateAgeNs = 500'000'000;

// Kernels that emulate multi-byte nops under a uprobe; measured on 6.18.
bool kernel_emulates_long_nops() {
  utsname name{};
  if (uname(&name) != 0) return false;
  int major = 0, minor = 0;
  if (std::sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
  return std::pair(major, minor) >= std::pair(6, 18);
}

struct Watched {
  Watched(const ProcessKey& process, int process_id, std::span<const rung_comm_layout> layouts)
      : key(process),
        pid(process_id),
        tracker(layouts, [process_id](std::uint64_t address, void* out, std::size_t bytes) {
          return read_process_memory(process_id, address, out, bytes);
        }) {}

  ProcessKey key;
  int pid = 0;
  rung_process entry{};
  CommTracker tracker;
  std::set<std::pair<std::string, std::uint64_t>> seen_libraries;  // device and inode, as in maps
  std::vector<std::uint32_t> files;                                // link ids
  Reason problem = Reason::kNone;  // the worst that happened while attaching
  std::string problem_detail;
  bool refused = false;  // nothing at all could be attached because of it
  UnixNs since{};        // of the present stage
  rung_counters counted{};
  bool flowing = false;
  bool exited = false;
  bool thinned_ever = false;
  std::uint64_t lost = 0;
  std::uint64_t lost_before = 0;  // not yet told with an observation
  std::uint64_t peer_calls = 0;   // counter at the last drain
  std::uint64_t launches_measured = 0;
  std::uint64_t others_measured = 0;
  std::optional<UnixNs> measured_at;
};

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

class HostProbes::Impl {
 public:
  Impl(const HostProbesConfig& config, std::unique_ptr<ProbePrograms> programs, bool multi);

  CanaryResult& run_the_canary();
  Result<void> watch(const ProcessKey& key, int pid);
  void unwatch(const ProcessKey& key);
  void drain(UnixNs now, std::vector<Observation>& out);
  void govern(UnixNs now, std::vector<Observation>& out);
  RungCoverage coverage(const Watched& process) const;
  ProbeTotals totals() const;

  std::unique_ptr<ProbePrograms> programs_;
  std::map<ProcessKey, std::unique_ptr<Watched>> processes_;
  std::vector<ProcessEvent> process_events_;
  CanaryResult canary_;

 private:
  Result<Watched*> admit(const ProcessKey& key, int pid);
  Result<void> rescan(Watched& process);
  Result<void> attach_library(Watched& process, const MappedLibrary& library);
  Result<Fd> open_library(const Watched& process, const MappedLibrary& library) const;
  Result<void> use_file(Watched& process, ProbedFile& file);
  void blame(Watched& process, Reason reason, std::string detail);
  ProbedFile* file_by_id(std::uint32_t link_id);
  const ProbedFile* file_by_id(std::uint32_t link_id) const;

  Watched* watched_by(const rung_event& head) const;
  void on_event(const rung_event& head, std::span<const std::byte> all);
  void on_process_event(const rung_process_event& event);
  void report(Watched& process, UnixNs now, std::int64_t mono_now, std::vector<Observation>& out);
  void report_losses(Watched& process, UnixNs now, std::vector<Observation>& out);
  void report_counts(Watched& process, UnixNs now, std::vector<Observation>& out);
  void report_threads(UnixNs now, std::int64_t mono_now, std::vector<Observation>& out);
  void report_peers(UnixNs now, std::vector<Observation>& out);
  bool hidden_by_thinning(const Watched& process, UnixNs entered) const;
  Origin origin(Watched& process, UnixNs at);

  std::pair<double, double> shares(Watched& process, UnixNs now);
  void govern_file(ProbedFile& file, UnixNs now, std::vector<Observation>& out);
  void tell_users(const ProbedFile& file, HealthEvent event, UnixNs now,
                  std::vector<Observation>& out);

  HostProbesConfig config_;
  std::string root_;
  bool multi_;
  bool long_nops_ = kernel_emulates_long_nops();
  std::vector<rung_comm_layout> layouts_ = layout_table();
  std::deque<std::uint32_t> free_slots_;
  std::vector<Watched*> by_slot_;
  std::uint32_t last_generation_ = 0;
  std::uint32_t last_link_ = kCanaryLink;
  std::list<ProbedFile> files_;
  std::map<ProcessKey, std::pair<double, double>> last_shares_;
  std::int64_t unix_minus_mono_ = 0;
  double highest_share_ = 0;
  std::uint64_t threads_over_bound_ = 0;
  std::uint64_t comms_over_bound_gone_ = 0;  // of processes that are no longer watched
  std::chrono::nanoseconds last_attach_{};
  std::chrono::nanoseconds last_detach_{};
};

HostProbes::Impl::Impl(const HostProbesConfig& config, std::unique_ptr<ProbePrograms> programs,
                       bool multi)
    : programs_(std::move(programs)),
      config_(config),
      root_(config.proc_root == "/" ? "" : config.proc_root),
      multi_(multi),
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
  return canary_;
}

// ---- watching ----

Result<Watched*> HostProbes::Impl::admit(const ProcessKey& key, int pid) {
  const auto known = processes_.find(key);
  if (known != processes_.end()) return known->second.get();
  if (free_slots_.empty()) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("no slot is left: {} processes are watched", processes_.size()));
  }
  auto process = std::make_unique<Watched>(key, pid, layouts_);
  // The oldest free slot, so that late hits of its former owner have long ended.
  process->entry.slot = free_slots_.front();
  process->entry.generation = ++last_generation_;
  process->since = unix_ns(unix_now_ns());
  programs_->clear_counters(process->entry.slot);
  auto set = programs_->set_process(static_cast<std::uint32_t>(pid), process->entry);
  if (!set) return tl::unexpected(set.error());
  free_slots_.pop_front();
  Watched* raw = process.get();
  by_slot_[raw->entry.slot] = raw;
  processes_.emplace(key, std::move(process));
  return raw;
}

Result<void> HostProbes::Impl::watch(const ProcessKey& key, int pid) {
  const auto gone = [&] {
    return fail(ErrorCode::kNotFound, fmt::format("process {} is gone", pid));
  };
  if (start_ticks_of(root_, pid) != key.start_ticks) return gone();
  auto process = admit(key, pid);
  if (!process) return tl::unexpected(process.error());
  auto scanned = rescan(**process);
  // The pid may have changed hands while we looked.
  if (start_ticks_of(root_, pid) != key.start_ticks) {
    unwatch(key);
    return gone();
  }
  return scanned;
}

Result<void> HostProbes::Impl::rescan(Watched& process) {
  auto maps = read_file(fmt::format("{}/proc/{}/maps", root_, process.pid), limits::kMapsBytes);
  if (!maps) {
    blame(process, reason_of(maps.error()), maps.error().message);
    process.refused = process.files.empty();
    return tl::unexpected(maps.error());
  }
  Result<void> outcome;
  for (const MappedLibrary& library : probed_libraries(*maps)) {
    if (process.seen_libraries.contains({library.device, library.inode})) continue;
    auto attached = attach_library(process, library);
    if (attached) {
      process.seen_libraries.insert({library.device, library.inode});
    } else {
      blame(process, reason_of(attached.error()), attached.error().message);
      process.refused = process.files.empty();
      outcome = std::move(attached);
    }
  }
  return outcome;
}

Result<Fd> HostProbes::Impl::open_library(const Watched& process,
                                          const MappedLibrary& library) const {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  // map_files works after the file is deleted and in other mount namespaces.
  Fd mapped(
      ::open(fmt::format("{}/proc/{}/map_files/{}", root_, process.pid, library.map_file).c_str(),
             kFlags));
  if (mapped.valid()) return mapped;
  const int error = errno;
  Fd named(
      ::open(fmt::format("{}/proc/{}/root{}", root_, process.pid, library.path).c_str(), kFlags));
  if (named.valid()) return named;
  return fail_errno(error,
                    fmt::format("{} of process {} cannot be opened", library.path, process.pid),
                    "needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN");
}

Result<void> HostProbes::Impl::attach_library(Watched& process, const MappedLibrary& library) {
  auto opened = open_library(process, library);
  if (!opened) return tl::unexpected(opened.error());
  struct stat info {};
  if (fstat(opened->get(), &info) != 0) return fail_errno(errno, library.path);
  for (ProbedFile& file : files_) {
    if (file.device == info.st_dev && file.inode == info.st_ino) return use_file(process, file);
  }
  ProbedFile::Options options;
  options.multi = multi_;
  options.long_nops = long_nops_;
  options.budget_share = config_.budget_share;
  options.link_id = ++last_link_;
  for (const auto& build : config_.accepted) {
    options.accepted.emplace_back(build.build_id, build.layout);
  }
  auto planned = ProbedFile::plan(std::move(*opened), library.kind, library.path, options);
  if (!planned) return tl::unexpected(planned.error());
  if (!planned->has_functions()) {
    // Most libtorch_cuda take NCCL from elsewhere: nothing to say then.
    if (planned->foreign_architecture()) {
      blame(process, Reason::kForeignArchitecture, library.path);
    } else if (!planned->single_stepped().empty()) {
      blame(process, Reason::kSingleStepped, library.path);
    } else if (library.kind != LibraryKind::kTorchCuda) {
      blame(process, Reason::kNoSymbols, library.path);
    }
    return {};
  }
  files_.push_back(std::move(*planned));
  ProbedFile& file = files_.back();
  // The process must expect the link before its first hit.
  auto used = use_file(process, file);
  if (used) used = file.attach(*programs_);
  if (!used) {
    std::erase(process.files, file.link_id());
    files_.pop_back();
    return used;
  }
  last_attach_ = file.last_attach();
  return {};
}

Result<void> HostProbes::Impl::use_file(Watched& process, ProbedFile& file) {
  if (process.files.size() >= RUNG_PROBE_LINKS) {
    blame(process, Reason::kTableFull, "more library files than one process may have");
    return fail(ErrorCode::kUnavailable, "the process maps more library files than are followed");
  }
  process.entry.links[process.files.size()] = file.link_id();
  auto set = programs_->set_process(static_cast<std::uint32_t>(process.pid), process.entry);
  if (!set) return set;
  process.files.push_back(file.link_id());
  process.refused = false;
  process.since = unix_ns(unix_now_ns());
  file.users.insert(process.key);
  if (file.is_nccl() && !file.layout_known()) {
    blame(process, Reason::kUnknownBuild,
          fmt::format("NCCL build {} is not on the accepted list",
                      file.build_id().empty() ? "without id" : file.build_id()));
  }
  if (!file.single_stepped().empty()) {
    std::string names;
    for (const std::string& name : file.single_stepped())
      names += (names.empty() ? "" : " ") + name;
    blame(process, Reason::kSingleStepped, "not probed: " + names);
  }
  if (file.governor.thinned()) process.thinned_ever = true;
  return {};
}

void HostProbes::Impl::blame(Watched& process, Reason reason, std::string detail) {
  process.problem = reason;
  process.problem_detail = printable(detail);
}

ProbedFile* HostProbes::Impl::file_by_id(std::uint32_t link_id) {
  return const_cast<ProbedFile*>(std::as_const(*this).file_by_id(link_id));
}

const ProbedFile* HostProbes::Impl::file_by_id(std::uint32_t link_id) const {
  for (const ProbedFile& file : files_) {
    if (file.link_id() == link_id) return &file;
  }
  return nullptr;
}

void HostProbes::Impl::unwatch(const ProcessKey& key) {
  const auto found = processes_.find(key);
  if (found == processes_.end()) return;
  const Watched& process = *found->second;
  programs_->erase_process(static_cast<std::uint32_t>(process.pid));
  for (const auto& [tid, thread] : programs_->threads()) {
    if (thread.slot == process.entry.slot) programs_->erase_thread(tid);
  }
  if (process.counted.entered[RUNG_CALL_POINT_TO_POINT] > 0) {
    for (const auto& [peer, counts] : programs_->peers()) {
      if (peer.slot == process.entry.slot) programs_->erase_peer(peer);
    }
  }
  for (ProbedFile& file : files_) {
    if (file.users.erase(key) > 0 && file.users.empty()) file.unused_since_mono = mono_now_ns();
  }
  comms_over_bound_gone_ += process.tracker.over_bound();
  by_slot_[process.entry.slot] = nullptr;
  free_slots_.push_back(process.entry.slot);
  last_shares_.erase(key);
  processes_.erase(found);
}

// ---- draining ----

Watched* HostProbes::Impl::watched_by(const rung_event& head) const {
  if (head.slot >= by_slot_.size()) return nullptr;
  Watched* process = by_slot_[head.slot];
  return process != nullptr && process->entry.generation == head.generation ? process : nullptr;
}

template <class Event>
std::optional<Event> event_of(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Event)) return std::nullopt;
  Event event;
  std::memcpy(&event, bytes.data(), sizeof event);
  return event;
}

void HostProbes::Impl::on_event(const rung_event& head, std::span<const std::byte> all) {
  if (head.kind == RUNG_EVENT_EXEC || head.kind == RUNG_EVENT_EXIT) {
    if (const auto event = event_of<rung_process_event>(all)) on_process_event(*event);
    return;
  }
  Watched* process = watched_by(head);
  if (process == nullptr) return;
  if (head.kind == RUNG_EVENT_COLLECTIVE) {
    if (const auto event = event_of<rung_collective_event>(all)) {
      process->tracker.on_collective(*event);
    }
    return;
  }
  const auto event = event_of<rung_comm_event>(all);
  if (!event) return;
  if (head.kind == RUNG_EVENT_COMM) process->tracker.on_comm(*event);
  if (head.kind == RUNG_EVENT_COMM_SEEN) process->tracker.on_comm_seen(*event);
}

void HostProbes::Impl::on_process_event(const rung_process_event& event) {
  Watched* process = watched_by(event.head);
  const bool exit = event.head.kind == RUNG_EVENT_EXIT;
  if (exit && (process == nullptr || process->exited)) return;
  if (process_events_.size() >= kMostProcessEvents) return;
  ProcessEvent out;
  out.what = exit ? ProcessEvent::What::kExit : ProcessEvent::What::kExec;
  out.pid = event.head.pid;
  out.watched = process != nullptr;
  out.mono_ns = static_cast<std::int64_t>(event.head.mono_ns);
  if (exit) {
    process->exited = true;
    if (WIFSIGNALED(event.wait_status)) {
      out.signal = WTERMSIG(event.wait_status);
    } else {
      out.exit_code = WEXITSTATUS(event.wait_status);
    }
  }
  process_events_.push_back(out);
}

Origin HostProbes::Impl::origin(Watched& process, UnixNs at) {
  return {Source::kHostProbes, Rung::kHost, process.key, at, std::exchange(process.lost_before, 0)};
}

void HostProbes::Impl::drain(UnixNs now, std::vector<Observation>& out) {
  programs_->begin_tick(boot_now_ns(), kExecHintsPerTick);
  programs_->consume(
      [this](const rung_event& head, std::span<const std::byte> all) { on_event(head, all); });
  const std::int64_t mono_now = mono_now_ns();
  unix_minus_mono_ = unix_now_ns() - mono_now;
  for (auto& [key, process] : processes_) report(*process, now, mono_now, out);
  report_threads(now, mono_now, out);
  report_peers(now, out);
}

void HostProbes::Impl::report(Watched& process, UnixNs now, std::int64_t mono_now,
                              std::vector<Observation>& out) {
  const std::uint64_t lost_until_now = process.lost;
  const rung_counters counted = programs_->counters(process.entry.slot);
  if (!process.flowing && all_calls(counted) > 0) {
    process.flowing = true;
    process.since = now;
  }
  process.counted = counted;
  process.lost = counted.ring_lost;
  process.lost_before += process.lost - lost_until_now;
  if (process.lost > lost_until_now) report_losses(process, now, out);
  auto batches = process.tracker.settle(mono_now, unix_minus_mono_, process.lost > lost_until_now);
  for (auto& [mono_ns, event] : process.tracker.take_events()) {
    out.push_back({origin(process, unix_ns(mono_ns + unix_minus_mono_)), event});
  }
  for (CollectiveBatch& batch : batches) {
    out.push_back({origin(process, now), std::move(batch)});
  }
  report_counts(process, now, out);
}

void HostProbes::Impl::report_losses(Watched& process, UnixNs now, std::vector<Observation>& out) {
  HealthEvent event;
  event.kind = HealthEvent::Kind::kRecordsLost;
  event.value = static_cast<double>(process.lost_before);
  event.what = "event ring of the host probes";
  out.push_back({origin(process, now), event});
}

void HostProbes::Impl::report_counts(Watched& process, UnixNs now, std::vector<Observation>& out) {
  HostCallStats stats;
  stats.launches_thinned = process.thinned_ever;
  for (std::size_t i = 0; i < RUNG_PROBE_CLASSES; ++i) {
    if (process.counted.entered[i] == 0) continue;
    HostCallStats::Class row{static_cast<CallClass>(i), process.counted.entered[i], 0};
    if (row.call == RUNG_CALL_COPY) row.bytes = process.counted.bytes_copy;
    if (row.call == RUNG_CALL_SET) row.bytes = process.counted.bytes_set;
    if (row.call == RUNG_CALL_ALLOC) row.bytes = process.counted.bytes_alloc;
    stats.classes.push_back(row);
  }
  if (!stats.classes.empty()) out.push_back({origin(process, now), std::move(stats)});
}

// While launch probes are off, a thread may have launched since its last call that was seen.
bool HostProbes::Impl::hidden_by_thinning(const Watched& process, UnixNs entered) const {
  return std::any_of(process.files.begin(), process.files.end(), [&](std::uint32_t id) {
    const ProbedFile* file = file_by_id(id);
    return file != nullptr && file->has_launches() && !file->governor.on() &&
           entered > file->governor.on_since();
  });
}

void HostProbes::Impl::report_threads(UnixNs now, std::int64_t mono_now,
                                      std::vector<Observation>& out) {
  const auto functions = function_table();
  std::vector<std::size_t> told(by_slot_.size(), 0);
  for (const auto& [tid, thread] : programs_->threads()) {
    Watched* process = thread.slot < by_slot_.size() ? by_slot_[thread.slot] : nullptr;
    if (process == nullptr || process->entry.generation != thread.generation) {
      programs_->erase_thread(tid);
      continue;
    }
    if (thread.function >= functions.size() || thread.calls == 0) continue;
    const auto entered = static_cast<std::int64_t>(thread.entered_mono_ns);
    const auto id = static_cast<std::int32_t>(tid);
    InFlightCall call;
    if (mono_now - entered >= kStateAgeNs) {
      const auto state = thread_state_of(root_, process->pid, id);
      if (!state) {
        programs_->erase_thread(tid);
        continue;
      }
      call.thread_state = *state;
    }
    call.entered = unix_ns(entered + unix_minus_mono_);
    if (hidden_by_thinning(*process, call.entered)) continue;
    if (++told[thread.slot] > limits::kThreadsPerRank) {
      ++threads_over_bound_;
      continue;
    }
    call.tid = id;
    call.call = static_cast<CallClass>(functions[thread.function].row.call_class);
    call.function = functions[thread.function].name;
    call.calls_so_far = thread.calls;
    out.push_back({origin(*process, now), std::move(call)});
  }
}

void HostProbes::Impl::report_peers(UnixNs now, std::vector<Observation>& out) {
  std::set<std::uint32_t> moved;  // slots with point-to-point calls since the last drain
  for (auto& [key, process] : processes_) {
    const std::uint64_t calls = process->counted.entered[RUNG_CALL_POINT_TO_POINT];
    if (std::exchange(process->peer_calls, calls) != calls) moved.insert(process->entry.slot);
  }
  if (moved.empty()) return;
  const bool complete = programs_->drops()[RUNG_DROP_PEERS_FULL] == 0;
  std::map<std::pair<std::uint32_t, std::uint64_t>, PointToPointStats> stats;  // slot, pointer
  for (const auto& [key, counts] : programs_->peers()) {
    Watched* process = key.slot < by_slot_.size() ? by_slot_[key.slot] : nullptr;
    if (process == nullptr || process->entry.generation != key.generation ||
        process->tracker.is_gone(key)) {
      programs_->erase_peer(key);
      continue;
    }
    if (!moved.contains(key.slot)) continue;
    PointToPointStats& row = stats[{key.slot, key.comm}];
    row.comm = process->tracker.reference(key);
    row.since_init = complete && process->tracker.seen_since_init(key.comm);
    row.peers.push_back(
        {key.peer, counts.sends, counts.receives,
         unix_ns(static_cast<std::int64_t>(counts.last_mono_ns) + unix_minus_mono_)});
  }
  for (auto& [place, row] : stats) {
    std::sort(row.peers.begin(), row.peers.end(),
              [](const auto& a, const auto& b) { return a.peer < b.peer; });
    out.push_back({origin(*by_slot_[place.first], now), std::move(row)});
  }
}

// ---- governing ----

// What the launch probes and the others cost of one CPU, in this process, since the last call.
std::pair<double, double> HostProbes::Impl::shares(Watched& process, UnixNs now) {
  const std::uint64_t launches = process.counted.entered[RUNG_CALL_LAUNCH];
  const std::uint64_t others = all_calls(process.counted) - launches;
  std::pair<double, double> out{0, 0};
  if (process.measured_at && now > *process.measured_at) {
    const double elapsed_ns = static_cast<double>((now - *process.measured_at).count());
    const auto share = [&](std::uint64_t hits) {
      return static_cast<double>(hits) * canary_.cost_ns / elapsed_ns;
    };
    out = {share(launches - process.launches_measured), share(others - process.others_measured)};
  }
  process.launches_measured = launches;
  process.others_measured = others;
  process.measured_at = now;
  return out;
}

void HostProbes::Impl::govern(UnixNs now, std::vector<Observation>& out) {
  highest_share_ = 0;
  for (auto& [key, process] : processes_) {
    const auto share = shares(*process, now);
    last_shares_[key] = share;
    highest_share_ = std::max(highest_share_, share.first + share.second);
  }
  const std::int64_t mono_now = mono_now_ns();
  for (auto file = files_.begin(); file != files_.end();) {
    if (file->users.empty() && mono_now - file->unused_since_mono >= kLingerNs) {
      file = files_.erase(file);
      continue;
    }
    if (file->has_launches() && !file->users.empty()) govern_file(*file, now, out);
    ++file;
  }
}

void HostProbes::Impl::govern_file(ProbedFile& file, UnixNs now, std::vector<Observation>& out) {
  std::pair<double, double> worst{0, 0};
  for (const ProcessKey& user : file.users) {
    const auto& share = last_shares_[user];
    if (share.first + share.second > worst.first + worst.second) worst = share;
  }
  const bool thinned_before = file.governor.thinned();
  const double percent_before = file.governor.percent_on();
  const auto action = file.governor.decide(now, worst.first, worst.second);
  if (action == LaunchGovernor::Action::kTakeOff) {
    file.take_launches_off();
    last_detach_ = file.last_detach();
  }
  if (action == LaunchGovernor::Action::kPutOn) {
    if (file.put_launches_on(*programs_)) {
      last_attach_ = file.last_attach();
    } else {
      file.governor.could_not_put_on(now);
    }
  }
  if (file.governor.thinned() &&
      (!thinned_before || percent_before != file.governor.percent_on())) {
    tell_users(file, {HealthEvent::Kind::kProbesThinned, file.governor.percent_on(), file.path()},
               now, out);
  } else if (thinned_before && !file.governor.thinned()) {
    tell_users(file, {HealthEvent::Kind::kProbesRestored, 100, file.path()}, now, out);
  }
}

void HostProbes::Impl::tell_users(const ProbedFile& file, HealthEvent event, UnixNs now,
                                  std::vector<Observation>& out) {
  for (const ProcessKey& user : file.users) {
    const auto process = processes_.find(user);
    if (process == processes_.end()) continue;
    if (event.kind == HealthEvent::Kind::kProbesThinned) process->second->thinned_ever = true;
    out.push_back({origin(*process->second, now), event});
  }
}

// ---- telling ----

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
  out.exec_hints_lost = drops[RUNG_DROP_EXEC_LIMIT];
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

// ---- the public face ----

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
