// Draining: what the probes have seen becomes observations.
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "sources/host_probes/host_probes_impl.h"
#include "sources/host_probes/process_view.h"

namespace rung {
namespace {

constexpr std::size_t kMostProcessEvents = 4096;
// A thread whose last call is younger than this is busy; its state is not worth a read of /proc.
constexpr std::int64_t kStateAgeNs = 500'000'000;

}  // namespace

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
  if (!exit && process != nullptr) forget_program(*process);
  if (process_events_.size() >= kMostProcessEvents) {
    ++process_events_lost_;
    return;
  }
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

// After an exec nothing of what was mapped or created is there any more. The probes stay: the new
// program often maps the same libraries, and its calls before the next look count.
void HostProbes::Impl::forget_program(Watched& process) {
  process.seen_libraries.clear();
  comms_over_bound_gone_ += process.tracker.over_bound();
  process.tracker = tracker_of(process.pid, layouts_);
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
  stats.launches_seen_since = launches_seen_since(process);
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

std::optional<UnixNs> HostProbes::Impl::launches_seen_since(const Watched& process) const {
  std::optional<UnixNs> since;
  for (const std::uint32_t id : process.files) {
    const ProbedFile* file = file_by_id(id);
    if (file == nullptr || !file->has_launches()) continue;
    if (!file->governor.on()) return std::nullopt;
    since = std::max(process.watched_since, file->governor.on_since());
  }
  return since;
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

}  // namespace rung
