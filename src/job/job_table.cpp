#include "job/job_table.h"

#include <algorithm>

#include "model/limits.h"

namespace rung {
namespace {

JobNs on_job_axis(UnixNs t) { return job_ns(ns_of(t)); }

// Events that end a state rather than begin one.
std::optional<HealthEvent::Kind> ends(HealthEvent::Kind kind) {
  if (kind == HealthEvent::Kind::kVendorCallReturned) return HealthEvent::Kind::kVendorCallBlocked;
  if (kind == HealthEvent::Kind::kProbesRestored) return HealthEvent::Kind::kProbesThinned;
  return std::nullopt;
}

bool lasts_until_ended(HealthEvent::Kind kind) {
  return kind == HealthEvent::Kind::kVendorCallBlocked || kind == HealthEvent::Kind::kProbesThinned;
}

}  // namespace

void JobTable::absorb(const Observation& observation) {
  if (const auto* identity = std::get_if<ProcessIdentity>(&observation.what)) {
    absorb_identity(observation, *identity);
    return;
  }
  if (const auto* device = std::get_if<DeviceSample>(&observation.what)) {
    absorb_device(observation.from.at, *device);
    return;
  }
  if (const auto* event = std::get_if<HealthEvent>(&observation.what)) {
    absorb_health(observation.from.at, *event);
    return;
  }
  const auto found = processes_.find(observation.from.process);
  if (found != processes_.end()) found->second.absorb(observation);
}

void JobTable::absorb_identity(const Observation& observation, const ProcessIdentity& identity) {
  const ProcessKey& key = observation.from.process;
  auto found = processes_.find(key);
  if (found == processes_.end()) {
    const bool full = processes_.size() >= limits::kRanksPerNode * 4 ||
                      (!jobs_.contains(identity.job) && jobs_.size() >= limits::kJobs);
    if (full) {
      ++overflow_;
      return;
    }
    found = processes_.emplace(key, RankState(key, observation.from.at)).first;
  }
  found->second.absorb(observation);
  job_of_[key] = identity.job;
  if (!identity.rank) return;

  Job& job = jobs_[identity.job];
  const auto holder = job.ranks.find(*identity.rank);
  if (holder != job.ranks.end() && holder->second == key) return;
  // A new process in a job whose ranks are all gone is its next attempt, not a late rank.
  if (!job.ranks.empty() && all_gone(job)) {
    job.ranks.clear();
    ++job.attempt;
  }
  job.attempt = std::max(job.attempt, identity.attempt);
  job.ended.reset();
  job.ranks[*identity.rank] = key;
}

void JobTable::absorb_device(UnixNs, const DeviceSample& sample) {
  if (devices_.size() >= limits::kDevices && !devices_.contains(sample.device)) return;
  devices_[sample.device] = sample;
}

void JobTable::absorb_health(UnixNs at, const HealthEvent& event) {
  if (const auto ended = ends(event.kind)) {
    const auto found = observer_.find({*ended, event.what});
    if (found != observer_.end()) found->second.ongoing = false;
    return;
  }
  observer_[{event.kind, event.what}] =
      ObserverFact{event.kind, event.value, event.what, on_job_axis(at), true};
}

bool JobTable::all_gone(const Job& job) const {
  return std::all_of(job.ranks.begin(), job.ranks.end(), [&](const auto& entry) {
    const auto found = processes_.find(entry.second);
    return found == processes_.end() || found->second.gone();
  });
}

void JobTable::drop(const JobId& job) {
  for (auto entry = job_of_.begin(); entry != job_of_.end();) {
    if (entry->second != job) {
      ++entry;
      continue;
    }
    processes_.erase(entry->first);
    entry = job_of_.erase(entry);
  }
  jobs_.erase(job);
}

void JobTable::age(UnixNs now) {
  std::vector<std::pair<UnixNs, JobId>> ended;
  for (auto& [id, job] : jobs_) {
    if (!all_gone(job)) continue;
    if (!job.ended) job.ended = now;
    ended.emplace_back(*job.ended, id);
  }
  std::sort(ended.begin(), ended.end());
  const std::size_t surplus =
      ended.size() > limits::kEndedJobs ? ended.size() - limits::kEndedJobs : 0;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    if (i < surplus || ended[i].first + kEndedJobsStay < now) drop(ended[i].second);
  }
  // Processes that hold no rank in the newest incarnation and are gone serve nobody.
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    const auto job =
        jobs_.find(job_of_.contains(entry->first) ? job_of_.at(entry->first) : JobId{});
    const bool holds = job != jobs_.end() &&
                       std::any_of(job->second.ranks.begin(), job->second.ranks.end(),
                                   [&](const auto& rank) { return rank.second == entry->first; });
    if (holds || !entry->second.gone()) {
      ++entry;
      continue;
    }
    job_of_.erase(entry->first);
    entry = processes_.erase(entry);
  }
  std::erase_if(observer_, [&](const auto& entry) {
    const ObserverFact& fact = entry.second;
    const bool old = fact.at + kObserverFactStays < on_job_axis(now);
    return old && !(fact.ongoing && lasts_until_ended(fact.kind));
  });
}

std::vector<JobView> JobTable::views(UnixNs now) const {
  std::vector<JobView> out;
  for (const auto& [id, job] : jobs_) out.push_back(view(id, job, now));
  return out;
}

std::optional<std::uint32_t> JobTable::owner(const JobId& job) const {
  for (const auto& [process, id] : job_of_) {
    if (id == job) return processes_.at(process).identity().uid;
  }
  return std::nullopt;
}

const JobId* JobTable::job_of(const ProcessKey& process) const {
  const auto found = job_of_.find(process);
  return found == job_of_.end() ? nullptr : &found->second;
}

std::vector<Observation> JobTable::snapshot(UnixNs now, const std::optional<JobId>& job) const {
  std::vector<Observation> out;
  for (const auto& [process, state] : processes_) {
    const JobId* belongs = job_of(process);
    if (job && (belongs == nullptr || *belongs != *job)) continue;
    state.snapshot(now, out);
  }
  for (const auto& [id, sample] : devices_) {
    out.push_back({Origin{Source::kNvml, Rung::kFleet, ProcessKey{}, now, 0}, sample});
  }
  return out;
}

const DeviceSample* JobTable::device_of(const ProcessKey& process, const RankState& state) const {
  if (state.identity().device) {
    const auto found = devices_.find(*state.identity().device);
    if (found != devices_.end()) return &found->second;
  }
  for (const auto& [id, sample] : devices_) {
    const auto& pids = sample.compute_pids;
    if (std::find(pids.begin(), pids.end(), process.pid) != pids.end()) return &sample;
  }
  return nullptr;
}

JobView JobTable::view(const JobId& id, const Job& job, UnixNs now) const {
  JobView out;
  out.job = id;
  out.attempt = job.attempt;
  out.now = on_job_axis(now);
  fill_ranks(out, job, now);
  fill_comms(out, job);
  fill_progress(out, job, now);
  for (const auto& [key, fact] : observer_) out.observer.push_back(fact);
  out.ended = all_gone(job);
  return out;
}

void JobTable::fill_ranks(JobView& out, const Job& job, UnixNs now) const {
  std::optional<std::int32_t> world;
  for (const auto& [rank, process] : job.ranks) {
    const RankState& state = processes_.at(process);
    const ProcessIdentity& identity = state.identity();
    out.ranks.push_back(state.view(rank, now, device_of(process, state)));
    out.simulated = out.simulated || identity.simulated;
    if (out.label.empty()) out.label = identity.label;
    if (identity.world_size) world = std::max(world.value_or(0), *identity.world_size);
    out.unidentified_comms = out.unidentified_comms || state.has_unidentified_comms();
  }
  if (world) {
    out.world_size = *world;
  } else {
    out.world_size = Unknown{"no rank told the size of the job"};
  }
}

// A communicator that was known by its unique id until NCCL's own hash was read in one rank.
std::map<CommId, CommId> JobTable::later_names(const Job& job) const {
  std::map<CommId, CommId> out;
  for (const auto& [rank, process] : job.ranks) {
    for (const auto& [pointer, comm] : processes_.at(process).comms()) {
      if (comm.made_as && *comm.made_as != comm.comm.id) out[*comm.made_as] = comm.comm.id;
    }
  }
  return out;
}

void JobTable::fill_comms(JobView& out, const Job& job) const {
  std::map<CommId, CommView> comms;
  const std::map<CommId, CommId> known_as = later_names(job);
  const auto member_of = [&](const CommRef& ref, MemberView member) {
    const auto renamed = known_as.find(ref.id);
    const CommId id = renamed == known_as.end() ? ref.id : renamed->second;
    CommView& comm = comms[id];
    comm.id = id;
    comm.size = std::max(comm.size, ref.size.value_or(0));
    comm.members.push_back(std::move(member));
  };
  for (const auto& [rank, process] : job.ranks) {
    const RankState& state = processes_.at(process);
    for (const auto& [pointer, comm] : state.comms()) {
      if (comm.comm.id.source == CommId::Source::kUnidentified) continue;
      member_of(comm.comm, comm.view(rank));
    }
    for (const PendingInit& init : state.pending_inits()) {
      MemberView member;
      member.rank = rank;
      member.comm_rank = init.comm.rank.value_or(-1);
      member.entered = Unknown{"the communicator is being made"};
      member.initializing = true;
      member.init_entered_at = on_job_axis(init.entered);
      member_of(init.comm, std::move(member));
    }
  }
  const std::optional<std::int32_t> world = out.world_size.maybe();
  for (auto& [id, comm] : comms) {
    const bool open = std::any_of(comm.members.begin(), comm.members.end(),
                                  [](const MemberView& member) { return !member.closed; });
    if (!open) continue;
    std::stable_sort(
        comm.members.begin(), comm.members.end(),
        [](const MemberView& a, const MemberView& b) { return a.comm_rank < b.comm_rank; });
    comm.comm_ranks_are_job_ranks =
        world && comm.size == *world &&
        std::all_of(comm.members.begin(), comm.members.end(),
                    [](const MemberView& m) { return m.comm_rank == m.rank.value; });
    out.comms.push_back(std::move(comm));
  }
}

void JobTable::fill_progress(JobView& out, const Job& job, UnixNs now) const {
  std::optional<UnixNs> last;
  bool collectives = false;
  bool graphs = false;
  std::optional<double> rate;
  Log2Histogram gaps;
  for (const auto& [rank, process] : job.ranks) {
    const RankState& state = processes_.at(process);
    if (const auto moved = state.last_move(); moved && (!last || *last < *moved)) last = moved;
    collectives = collectives || state.last_collective().has_value();
    graphs = graphs || state.launched_graphs();
    if (const auto per_second = state.collectives_per_second(now)) {
      rate = rate ? std::min(*rate, *per_second) : *per_second;
    }
    gaps.merge(state.gaps());
  }
  JobProgress& progress = out.progress;
  if (last) {
    progress.last_at = on_job_axis(*last);
    progress.source = collectives ? JobProgress::Source::kCollectives
                      : graphs    ? JobProgress::Source::kGraphs
                                  : JobProgress::Source::kLaunches;
  } else {
    progress.last_at = Unknown{"no rank was seen to move"};
  }
  if (rate) {
    progress.per_second = *rate;
  } else {
    progress.per_second = Unknown{"no collective was seen"};
  }
  const CommView* largest = nullptr;
  for (const CommView& comm : out.comms) {
    if (largest == nullptr || comm.size > largest->size) largest = &comm;
  }
  progress.index = Unknown{"no communicator with known counts"};
  if (largest != nullptr) {
    std::optional<std::uint64_t> slowest;
    for (const MemberView& member : largest->members) {
      if (const auto entered = member.entered.maybe()) {
        slowest = slowest ? std::min(*slowest, *entered) : *entered;
      }
    }
    if (slowest) progress.index = *slowest;
  }
  // Fewer gaps than this say nothing about a quantile.
  constexpr std::uint64_t kFewestGaps = 20;
  out.baseline.gaps = gaps.total();
  if (gaps.total() >= kFewestGaps) {
    out.baseline.gap_p999 = std::chrono::nanoseconds(*gaps.quantile_upper_bound(0.999));
  } else {
    out.baseline.gap_p999 = Unknown{"fewer than 20 gaps between collectives were seen"};
  }
}

}  // namespace rung
