#include "job/rank_state.h"

#include <algorithm>

#include "model/limits.h"

namespace rung {
namespace {

JobNs on_job_axis(UnixNs t) { return job_ns(ns_of(t)); }

template <class T>
Known<JobNs> known_time(const std::optional<T>& t, std::string_view why) {
  if (t) return on_job_axis(*t);
  return Unknown{why};
}

double seconds(std::chrono::nanoseconds d) { return static_cast<double>(d.count()) / 1e9; }

// The larger of two counters that each may be unknown.
std::optional<std::uint64_t> larger(std::optional<std::uint64_t> a,
                                    std::optional<std::uint64_t> b) {
  if (!a) return b;
  if (!b) return a;
  return std::max(*a, *b);
}

std::optional<std::uint64_t> growth(std::optional<std::uint64_t> from,
                                    std::optional<std::uint64_t> to) {
  if (!from || !to) return std::nullopt;
  return *to >= *from ? *to - *from : 0;
}

Known<std::uint64_t> known_bytes(std::optional<std::uint64_t> bytes) {
  if (bytes) return *bytes;
  return Unknown{"no right to read /proc/PID/io"};
}

void keep_later(std::optional<UnixNs>& into, UnixNs at) {
  if (!into || *into < at) into = at;
}

}  // namespace

void RankState::absorb(const Observation& observation) {
  const UnixNs at = observation.from.at;
  struct Visitor {
    RankState& self;
    UnixNs at;
    void operator()(const ProcessIdentity& identity) {
      self.identity_ = identity;
      self.identified_ = true;
    }
    void operator()(const ProcessSample& sample) { self.absorb_sample(at, sample); }
    void operator()(const ProcessExit& exit) {
      // The kernel's word (with a code) may come after we merely missed the process.
      const bool better = !self.exit_ || (!self.exit_->exit_code && !self.exit_->signal);
      if (better) {
        const JobNs when = self.exit_ ? self.exit_->at : on_job_axis(at);
        self.exit_ = ExitView{exit.exit_code, exit.signal, when};
      }
    }
    void operator()(const HostCallStats& stats) { self.absorb_calls(at, stats); }
    void operator()(const InFlightCall& call) { self.absorb_call(at, call); }
    void operator()(const CommEvent& event) { self.absorb_comm_event(at, event); }
    void operator()(const CollectiveBatch& batch) { self.absorb_batch(batch); }
    void operator()(const PointToPointStats& stats) {
      CommState& comm = self.comms_[stats.comm.pointer];
      comm.absorb(stats);
      if (comm.last_entered) {
        self.note_call(*comm.last_entered);
        keep_later(self.last_point_to_point_, *comm.last_entered);
      }
    }
    void operator()(const CoverageChange& change) {
      self.coverage_[change.coverage.rung] = change.coverage;
      const bool host = change.coverage.rung == Rung::kHost;
      const bool seeing =
          change.coverage.stage == Stage::kAttached || change.coverage.stage == Stage::kFlowing;
      if (host && seeing && !self.probes_since_) self.probes_since_ = change.coverage.since;
    }
    void operator()(const CpuPlace& place) { self.cpu_place_ = {at, place}; }
    void operator()(const DeviceSample&) {}
    void operator()(const HealthEvent&) {}
  };
  std::visit(Visitor{*this, at}, observation.what);
}

std::optional<UnixNs> RankState::gone_at() const {
  if (!exit_) return std::nullopt;
  return unix_ns(ns_of(exit_->at));
}

void RankState::absorb_sample(UnixNs at, const ProcessSample& sample) {
  if (!state_ || *state_ != sample.state) {
    state_ = sample.state;
    state_since_ = at;
  }
  samples_.push_back({at, sample});
  while (samples_.size() > 2 && samples_[1].at <= at - kActivityWindow) samples_.pop_front();
}

void RankState::note_call(UnixNs at) { keep_later(last_call_, at); }

void RankState::absorb_calls(UnixNs at, const HostCallStats& stats) {
  launches_thinned_ = stats.launches_thinned;
  launches_seen_since_ = stats.launches_seen_since;
  if (!probes_since_) probes_since_ = at;
  for (const HostCallStats::Class& now : stats.classes) {
    HostCallStats::Class& before = calls_[now.call];
    const bool moved = now.entered > before.entered;
    before = now;
    if (!moved) continue;
    if (now.call == RUNG_CALL_LAUNCH || now.call == RUNG_CALL_GRAPH_LAUNCH) {
      keep_later(last_launch_, at);
      launched_graphs_ = launched_graphs_ || now.call == RUNG_CALL_GRAPH_LAUNCH;
    }
  }
  note_quiet(at);
}

void RankState::note_quiet(UnixNs at) {
  if (!launches_seen_since_) return;
  const UnixNs from = std::max(
      {*launches_seen_since_, last_call_.value_or(UnixNs{}), last_launch_.value_or(UnixNs{})});
  if (at - from >= kQuietLook) quiet_until_ = at;
}

void RankState::absorb_call(UnixNs at, const InFlightCall& call) {
  note_call(call.entered);
  if (threads_.size() >= limits::kThreadsPerRank && !threads_.contains(call.tid)) {
    const auto oldest =
        std::min_element(threads_.begin(), threads_.end(), [](const auto& a, const auto& b) {
          return a.second.second.entered < b.second.second.entered;
        });
    if (oldest->second.second.entered > call.entered) return;
    threads_.erase(oldest);
  }
  threads_[call.tid] = {at, call};
}

void RankState::absorb_batch(const CollectiveBatch& batch) {
  if (comms_.size() >= limits::kCommsPerRank && !comms_.contains(batch.comm.pointer)) {
    ++comms_overflow_;
    return;
  }
  comms_[batch.comm.pointer].absorb(batch);
  if (batch.entries.empty()) return;
  for (const CollectiveEntry& entry : batch.entries) {
    if (last_collective_ && entry.entered > *last_collective_) {
      gaps_.add((entry.entered - *last_collective_).count());
    }
    keep_later(last_collective_, entry.entered);
  }
  const UnixNs last = batch.entries.back().entered;
  note_call(last);
  collective_counts_.emplace_back(last, batch.entries.size());
  while (collective_counts_.front().first < last - kRateWindow) collective_counts_.pop_front();
  // A process that goes on to use communicators has returned from making this one.
  std::erase_if(pending_inits_, [&](const PendingInit& init) { return init.entered < last; });
}

void RankState::absorb_comm_event(UnixNs at, const CommEvent& event) {
  const auto same = [&](const PendingInit& init) { return init.comm.id == event.comm.id; };
  switch (event.what) {
    case CommEvent::What::kInitEntered:
    case CommEvent::What::kSplitEntered:
      note_call(at);
      if (event.comm.id.source == CommId::Source::kUnidentified) return;
      if (pending_inits_.size() < limits::kCommsPerRank &&
          std::none_of(pending_inits_.begin(), pending_inits_.end(), same)) {
        pending_inits_.push_back({event.comm, at});
      }
      return;
    case CommEvent::What::kInitDone:
      std::erase_if(pending_inits_, same);
      if (event.comm.pointer != 0 && comms_.size() < limits::kCommsPerRank) {
        comms_[event.comm.pointer] = CommState::made(event.comm);
      }
      return;
    case CommEvent::What::kDestroyed:
    case CommEvent::What::kAborted: {
      note_call(at);
      const auto found = comms_.find(event.comm.pointer);
      if (found != comms_.end()) found->second.closed = true;
      return;
    }
  }
}

bool RankState::has_unidentified_comms() const {
  return comms_overflow_ > 0 || std::any_of(comms_.begin(), comms_.end(), [](const auto& entry) {
           return !entry.second.closed &&
                  entry.second.comm.id.source == CommId::Source::kUnidentified;
         });
}

std::optional<UnixNs> RankState::last_move() const {
  std::optional<UnixNs> latest = last_collective_;
  if (last_launch_) keep_later(latest, *last_launch_);
  if (last_point_to_point_) keep_later(latest, *last_point_to_point_);
  return latest;
}

std::optional<double> RankState::collectives_per_second(UnixNs now) const {
  if (!last_collective_) return std::nullopt;
  std::uint64_t count = 0;
  for (const auto& [at, entered] : collective_counts_) {
    if (at >= now - kRateWindow) count += entered;
  }
  const auto watched = std::min<std::chrono::nanoseconds>(kRateWindow, now - first_seen_);
  if (watched.count() <= 0) return std::nullopt;
  return static_cast<double>(count) / seconds(watched);
}

Activity RankState::activity(UnixNs now) const {
  Activity out;
  if (samples_.empty()) return out;
  const Sampled& last = samples_.back();
  out.child_compilers = last.sample.child_compilers;
  for (const Sampled& sampled : samples_) {
    if (sampled.sample.threads_disk_sleep) {
      out.threads_disk_sleep = *sampled.sample.threads_disk_sleep;
    }
  }
  const Sampled& first = samples_.front();
  out.window = last.at - first.at;
  if (out.window.count() <= 0) return out;
  const ProcessSample& a = first.sample;
  const ProcessSample& b = last.sample;
  const double cpu =
      static_cast<double>(b.cpu_ns - a.cpu_ns) / static_cast<double>(out.window.count());
  out.cpu_share = std::max(cpu, 0.0);
  out.read_bytes =
      known_bytes(larger(growth(a.read_bytes, b.read_bytes), growth(a.read_chars, b.read_chars)));
  out.written_bytes = known_bytes(
      larger(growth(a.written_bytes, b.written_bytes), growth(a.written_chars, b.written_chars)));
  out.cpu_outside_cuda_share = Unknown{"CPU places were not sampled"};
  if (cpu_place_ && cpu_place_->first >= now - kCpuPlaceAge) {
    const CpuPlace& place = cpu_place_->second;
    const double outside = place.samples == 0 ? 0.0
                                              : static_cast<double>(place.samples - place.in_cuda) /
                                                    static_cast<double>(place.samples);
    out.cpu_outside_cuda_share = outside * std::max(cpu, 0.0);
  }
  return out;
}

RankView RankState::view(RankId rank, UnixNs now, const DeviceSample* device) const {
  RankView out;
  out.rank = rank;
  out.process = process_;
  out.host = identity_.host;
  out.executable = identity_.executable;
  out.first_seen = on_job_axis(first_seen_);
  if (state_) {
    out.state = *state_;
  } else {
    out.state = Unknown{"no sample of /proc yet"};
  }
  out.state_since = on_job_axis(state_since_);
  if (!samples_.empty()) {
    out.tracer_pid = samples_.back().sample.tracer_pid;
    out.wait_channel = samples_.back().sample.wait_channel;
  }
  out.exit = exit_;
  UnixNs newest_report{};
  for (const auto& [tid, reported] : threads_)
    newest_report = std::max(newest_report, reported.first);
  for (const auto& [tid, reported] : threads_) {
    // A thread that the newest reports no longer name has ended.
    if (reported.first + std::chrono::seconds(3) < newest_report) continue;
    const InFlightCall& call = reported.second;
    out.threads.push_back(
        {tid, call.call, call.function, on_job_axis(call.entered), call.thread_state});
  }
  std::sort(out.threads.begin(), out.threads.end(),
            [](const ThreadCall& a, const ThreadCall& b) { return a.entered > b.entered; });
  out.last_call_at = known_time(last_call_, "no probed call was seen");
  out.last_launch_at = known_time(last_launch_, "no launch was seen");
  out.last_collective_at = known_time(last_collective_, "no collective was seen");
  out.host_probes_flowing = last_call_.has_value();
  out.probes_since = known_time(probes_since_, "host probes are not attached");
  const UnixNs last_seen = std::max(last_call_.value_or(UnixNs{}), last_launch_.value_or(UnixNs{}));
  const bool quiet = quiet_until_ && *quiet_until_ > last_seen;
  out.launches_thinned = launches_thinned_ && !quiet;
  out.unidentified_comms = has_unidentified_comms();
  out.activity = activity(now);
  if (device != nullptr) out.device = *device;
  for (const auto& [rung, coverage] : coverage_) out.coverage.push_back(coverage);
  return out;
}

void RankState::snapshot(UnixNs now, std::vector<Observation>& out) const {
  const auto add = [&](Source source, Rung rung, UnixNs at, Evidence what) {
    out.push_back({Origin{source, rung, process_, at, 0}, std::move(what)});
  };
  if (identified_) add(Source::kProcfs, Rung::kFleet, first_seen_, identity_);
  for (const auto& [rung, coverage] : coverage_)
    add(Source::kAgent, rung, now, CoverageChange{coverage});
  for (const Sampled& sampled : samples_) {
    add(Source::kProcfs, Rung::kFleet, sampled.at, sampled.sample);
  }
  if (!calls_.empty()) {
    HostCallStats stats;
    stats.launches_thinned = launches_thinned_;
    stats.launches_seen_since = launches_seen_since_;
    for (const auto& [call, counted] : calls_) stats.classes.push_back(counted);
    add(Source::kHostProbes, Rung::kHost, last_launch_.value_or(now), stats);
  }
  for (const auto& [pointer, comm] : comms_) {
    if (comm.made_as) {
      CommRef made = comm.comm;
      made.id = *comm.made_as;
      add(Source::kHostProbes, Rung::kHost, first_seen_,
          CommEvent{CommEvent::What::kInitDone, made});
    }
    CollectiveBatch batch;
    batch.comm = comm.comm;
    batch.captured = comm.captured;
    if (!comm.tail.empty()) batch.first_index = comm.tail.front().index;
    for (const TailEntry& entry : comm.tail) {
      batch.entries.push_back({unix_ns(ns_of(entry.entered)), entry.what});
    }
    add(Source::kHostProbes, Rung::kHost, comm.last_entered.value_or(now), batch);
    if (comm.closed) {
      add(Source::kHostProbes, Rung::kHost, now, CommEvent{CommEvent::What::kDestroyed, comm.comm});
    }
    if (comm.peers.empty()) continue;
    PointToPointStats traffic;
    traffic.comm = comm.comm;
    traffic.since_init = comm.peers_comparable;
    for (const auto& [number, peer] : comm.peers) {
      traffic.peers.push_back({peer.peer, peer.sends, peer.receives, unix_ns(ns_of(peer.last))});
    }
    add(Source::kHostProbes, Rung::kHost, now, traffic);
  }
  for (const PendingInit& init : pending_inits_) {
    add(Source::kHostProbes, Rung::kHost, init.entered,
        CommEvent{CommEvent::What::kInitEntered, init.comm});
  }
  for (const auto& [tid, reported] : threads_) {
    add(Source::kHostProbes, Rung::kHost, reported.first, reported.second);
  }
  if (exit_) {
    add(Source::kScheduler, Rung::kFleet, unix_ns(ns_of(exit_->at)),
        ProcessExit{exit_->exit_code, exit_->signal});
  }
}

}  // namespace rung
