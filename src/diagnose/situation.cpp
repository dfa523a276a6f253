#include "diagnose/situation.h"

#include <algorithm>

#include "diagnose/activity.h"

namespace rung {
namespace {

bool is_stopped(const JobView& view, const RankView& rank) {
  return rank.state.match(
      [&](ProcessState state) {
        return (state == ProcessState::kStopped || state == ProcessState::kTraced) &&
               view.now - rank.state_since >= kStoppedAfter;
      },
      [](Unknown) { return false; });
}

}  // namespace

bool probes_failed(const RankView& rank) {
  return std::any_of(rank.coverage.begin(), rank.coverage.end(), [](const RungCoverage& c) {
    return c.rung == Rung::kHost && (c.stage == Stage::kStale || c.stage == Stage::kRefused ||
                                     c.stage == Stage::kDormant || c.stage == Stage::kYielded);
  });
}

bool has_eyes(const RankView& rank) { return rank.host_probes_flowing && !probes_failed(rank); }

RankSet ranks_of(const std::vector<Suspect>& suspects) {
  RankSet out;
  for (const Suspect& suspect : suspects) out.insert(suspect.rank->rank);
  return out;
}

Situation::Situation(const JobView& v) : view(v), movement(v), graph(v, movement) {
  find_ranks();
  find_suspects();
  find_queued_work();
  find_unobserved_cause();
}

bool Situation::stands_still(const RankView& rank) const {
  const auto moved = movement.of(rank.rank);
  return has_eyes(rank) && moved && age(*moved) >= stall_after(rank);
}

void Situation::find_ranks() {
  bool any_seen = false;
  bool thinned = false;
  for (const RankView& rank : view.ranks) {
    if (rank.exit) continue;
    living.insert(rank.rank);
    thinned = thinned || rank.launches_thinned;
    if (has_eyes(rank)) {
      any_seen = any_seen || movement.of(rank.rank).has_value();
    } else {
      blind.insert(rank.rank);
    }
  }
  const auto newest = movement.newest();
  if (!any_seen || !newest) return;
  if (age(*newest) >= (thinned ? kStallAfterThinned : kStallAfter)) still_since = newest;
}

bool Situation::lost_near(JobNs moved) const {
  return std::any_of(view.observer.begin(), view.observer.end(), [&](const ObserverFact& fact) {
    return fact.kind == HealthEvent::Kind::kRecordsLost && fact.at >= moved - kLossMargin &&
           fact.at <= moved + kStallAfter;
  });
}

std::optional<JobNs> Situation::waiting_since(const WaitPoint& point) const {
  if (point.kind == WaitPoint::Kind::kInit) return std::nullopt;  // init.rank_missing judges those
  if (point.kind != WaitPoint::Kind::kCollective) {
    const RankView* waiter = view.find(point.waiter);
    const bool waits = waiter != nullptr && stands_still(*waiter);
    return waits ? std::optional(point.entered) : std::nullopt;
  }
  std::optional<JobNs> earliest;
  for (const MemberView& member : view.comms[point.comm].members) {
    const auto entered = entered_by(member);
    if (member.closed || !entered || *entered <= point.index) continue;
    const RankView* rank = view.find(member.rank);
    if (rank == nullptr || rank->exit || !stands_still(*rank)) continue;
    const TailEntry* entry = tail_entry(member, point.index);
    const JobNs at = entry != nullptr ? entry->entered : member.last_entered_at;
    if (!earliest || at < *earliest) earliest = at;
  }
  return earliest;
}

// Per wait point, since when ranks that stand still wait there. Once per point, not per rank: all
// that miss a collective share one.
std::vector<std::optional<JobNs>> Situation::waiting_since() const {
  std::vector<std::optional<JobNs>> out;
  for (const WaitPoint& point : graph.points()) out.push_back(waiting_since(point));
  return out;
}

void Situation::find_suspects() {
  const std::vector<std::optional<JobNs>> since_of = waiting_since();
  for (const RankId id : graph.sinks().ranks()) {
    const RankView* rank = view.find(id);
    std::optional<std::size_t> point;
    for (const std::size_t number : graph.awaited_at(id)) {
      if (!since_of[number]) continue;
      if (!point || *since_of[number] < *since_of[*point]) point = number;
    }
    if (rank == nullptr || !point) continue;
    const JobNs waiting = *since_of[*point];
    const auto moved = movement.of(id);
    const bool stopped = is_stopped(view, *rank);
    if (rank->exit || stopped) {
      const JobNs began = rank->exit ? rank->exit->at : rank->state_since;
      suspects.push_back({rank, *point, std::max(began, waiting), rank->exit.has_value(), stopped});
      continue;
    }
    if (!has_eyes(*rank) || !moved || lost_near(*moved)) {
      unclear_unseen.insert(id);
      continue;
    }
    const JobNs since = std::max(*moved, waiting);
    if (age(since) < stall_after(*rank)) continue;
    if (graph.may_wait_unseen().contains(id)) {
      unclear_unseen.insert(id);
    } else if (graph.may_wait_for_unobserved().contains(id) && may_block_on_device(*rank)) {
      unclear_behind_unobserved.insert(id);
    } else {
      suspects.push_back({rank, *point, since, false, false});
    }
  }
}

void Situation::find_queued_work() {
  bool idle_device = false;
  for (const RankView& rank : view.ranks) {
    if (rank.exit) continue;
    const auto busy = device_busy(rank).maybe();
    if ((busy && *busy) || spins_in_cuda(rank)) queued = Queued::kShown;
    idle_device = idle_device || (busy && !*busy);
    if (queued != Queued::kNone || busy || rank.threads.empty()) continue;
    const CallClass last = rank.threads.front().call;
    const bool can_wait = last == RUNG_CALL_SYNC || last == RUNG_CALL_COLLECTIVE ||
                          last == RUNG_CALL_POINT_TO_POINT || last == RUNG_CALL_GROUP_END ||
                          last == RUNG_CALL_COPY || last == RUNG_CALL_COMM_INIT;
    if (can_wait) queued = Queued::kPossible;
  }
  // Members that have entered what others have not do wait, whatever the devices say.
  if (queued == Queued::kNone && !graph.points().empty()) queued = Queued::kPossible;
}

void Situation::find_unobserved_cause() {
  if (!still_since || !suspects.empty() || !unclear_unseen.empty() || queued == Queued::kNone) {
    return;
  }
  for (const RankId id : graph.may_wait_for_unobserved().ranks()) {
    const RankView* rank = view.find(id);
    const bool elsewhere = graph.may_wait_unseen().contains(id);
    if (rank != nullptr && stands_still(*rank) && !elsewhere) waiting_for_unobserved.insert(id);
  }
  // Waits that lead to nobody unobserved would be misexplained by one.
  const RankSet behind = waiting_for_unobserved | graph.waiting_for(waiting_for_unobserved);
  if (!(graph.waiting() - behind).empty()) {
    waiting_for_unobserved = {};
    return;
  }
  for (const std::size_t comm : graph.unobserved_comms()) {
    const CommView& c = view.comms[comm];
    RankSet absent = c.comm_ranks_are_job_ranks
                         ? RankSet::first(static_cast<std::size_t>(std::max(c.size, 0)))
                         : view.unobserved() | blind;
    for (const MemberView& member : c.members) absent.erase(member.rank);
    unobserved_candidates |= absent;
  }
  // Members of which nothing was seen on the communicator, although their other calls are seen.
  for (const RankId id : unobserved_candidates.ranks()) {
    if (!living.contains(id) || blind.contains(id)) continue;
    unobserved_candidates.erase(id);
    unclear_behind_unobserved.insert(id);
  }
  if (unobserved_candidates.empty()) waiting_for_unobserved = {};
}

}  // namespace rung
