#include "timeline/wait_graph.h"

#include <algorithm>

#include "model/limits.h"
#include "timeline/components.h"

namespace rung {
namespace {

bool is_rank(RankId rank) {
  return rank.value >= 0 && static_cast<std::size_t>(rank.value) < limits::kRanksPerJob;
}

}  // namespace

WaitGraph::WaitGraph(const JobView& view, const Movement& movement)
    : view_(view), movement_(movement) {
  const bool flagged = std::any_of(view.ranks.begin(), view.ranks.end(),
                                   [](const RankView& rank) { return rank.unidentified_comms; });
  for (const RankView& rank : view.ranks) {
    if (!rank.exit) alive_.insert(rank.rank);
    // Where the view does not say whose communicators are unidentified, it may be anyone's.
    const bool unidentified = rank.unidentified_comms || (view.unidentified_comms && !flagged);
    if (unidentified) may_wait_unseen_.insert(rank.rank);
  }
  for (std::size_t comm = 0; comm < view.comms.size(); ++comm) {
    const CommMatch match = match_collectives(view.comms[comm]);
    add_init(comm);
    if (match.pending()) add_collectives(comm, match);
    mark_unseen(comm, match);
    add_point_to_point(comm);
  }
}

bool WaitGraph::alive(RankId rank) const { return alive_.contains(rank); }

bool WaitGraph::may_still_wait(RankId rank, JobNs entered) const {
  if (!alive(rank)) return false;
  const auto moved = movement_.of(rank);
  return !moved || entered == JobNs{} || *moved - entered < kLongestRunAhead;
}

const WaitGraph::Adjacency& WaitGraph::of(RankId rank) const {
  static const Adjacency kNone;
  const auto index = static_cast<std::size_t>(rank.value);
  return is_rank(rank) && index < adjacency_.size() ? adjacency_[index] : kNone;
}

const std::vector<std::size_t>& WaitGraph::waits_at(RankId rank) const { return of(rank).waits; }
const std::vector<std::size_t>& WaitGraph::awaited_at(RankId rank) const {
  return of(rank).awaited;
}

void WaitGraph::mark_waiting(RankId rank, std::size_t point) {
  if (!is_rank(rank)) return;
  const auto index = static_cast<std::size_t>(rank.value);
  if (index >= adjacency_.size()) adjacency_.resize(index + 1);
  adjacency_[index].waits.push_back(point);
  waiting_.insert(rank);
}

void WaitGraph::mark_awaited(RankId rank, std::size_t point) {
  if (!is_rank(rank)) return;
  const auto index = static_cast<std::size_t>(rank.value);
  if (index >= adjacency_.size()) adjacency_.resize(index + 1);
  adjacency_[index].awaited.push_back(point);
  awaited_.insert(rank);
}

void WaitGraph::add(const WaitPoint& point) {
  const std::size_t number = points_.size();
  points_.push_back(point);
  for_each_waiter(point, [&](RankId rank) { mark_waiting(rank, number); });
  for_each_missing(point, [&](RankId rank) { mark_awaited(rank, number); });
}

void WaitGraph::add_collectives(std::size_t comm, const CommMatch& match) {
  const WaitPoint point{WaitPoint::Kind::kCollective, comm, match.complete, {}, {}, {}};
  const auto& members = view_.comms[comm].members;
  visits_ += members.size();
  const bool someone_waits =
      std::any_of(members.begin(), members.end(),
                  [&](const MemberView& member) { return is_waiter(point, member); });
  if (someone_waits) add(point);
}

void WaitGraph::add_init(std::size_t comm) {
  const CommView& c = view_.comms[comm];
  visits_ += c.members.size();
  const bool in_init = std::any_of(
      c.members.begin(), c.members.end(),
      [&](const MemberView& member) { return member.initializing && alive(member.rank); });
  if (!in_init || c.size <= static_cast<std::int32_t>(c.members.size())) return;
  const WaitPoint point{WaitPoint::Kind::kInit, comm, 0, {}, {}, {}};
  bool observed = false;
  for_each_missing(point, [&](RankId) { observed = true; });
  if (observed) {
    add(point);
    return;
  }
  for_each_waiter(point, [&](RankId rank) { may_wait_for_unobserved_.insert(rank); });
  unobserved_comms_.push_back(comm);
}

void WaitGraph::mark_unseen(std::size_t comm, const CommMatch& match) {
  const CommView& c = view_.comms[comm];
  visits_ += c.members.size();
  bool unobserved = false;
  for (const MemberView& member : c.members) {
    if (member.closed || !alive(member.rank)) continue;
    if (match.captured) {
      may_wait_unseen_.insert(member.rank);
      continue;
    }
    const auto entered = entered_by(member);
    const bool took_part = entered ? *entered > 0 : member.last_entered_at != JobNs{};
    if (!took_part || !may_still_wait(member.rank, member.last_entered_at)) continue;
    const bool only_peers = !entered && member.tail.empty() && !member.peers.empty();
    if (only_peers && match.frontier == 0) continue;
    if (match.uncounted > 0 || !match.size_known) {
      may_wait_unseen_.insert(member.rank);
    } else if (match.unobserved > 0) {
      may_wait_for_unobserved_.insert(member.rank);
      unobserved = true;
    }
  }
  if (unobserved) unobserved_comms_.push_back(comm);
}

const MemberView* WaitGraph::member(std::size_t comm, std::int32_t comm_rank) const {
  const auto& members = view_.comms[comm].members;
  const auto found = std::lower_bound(
      members.begin(), members.end(), comm_rank,
      [](const MemberView& view, std::int32_t wanted) { return view.comm_rank < wanted; });
  return found != members.end() && found->comm_rank == comm_rank ? &*found : nullptr;
}

void WaitGraph::add_point_to_point(std::size_t comm) {
  for (const MemberView& waiter : view_.comms[comm].members) {
    if (waiter.closed || waiter.comm_rank < 0 || !alive(waiter.rank)) continue;
    for (const PeerTraffic& traffic : waiter.peers) add_peer_waits(comm, waiter, traffic);
  }
}

void WaitGraph::add_peer_waits(std::size_t comm, const MemberView& waiter,
                               const PeerTraffic& traffic) {
  ++visits_;
  if (traffic.peer == waiter.comm_rank) return;
  const bool may = may_still_wait(waiter.rank, traffic.last);
  const MemberView* peer = member(comm, traffic.peer);
  if (peer == nullptr) {
    if (!may) return;
    may_wait_for_unobserved_.insert(waiter.rank);
    if (unobserved_comms_.empty() || unobserved_comms_.back() != comm) {
      unobserved_comms_.push_back(comm);
    }
    return;
  }
  if (!waiter.peers_comparable || !(peer->peers_comparable || peer->peers.empty()) ||
      (peer->peers.empty() && !entered_by(*peer))) {
    if (may) may_wait_unseen_.insert(waiter.rank);
    return;
  }
  const auto back = std::find_if(peer->peers.begin(), peer->peers.end(),
                                 [&](const auto& other) { return other.peer == waiter.comm_rank; });
  const bool any = back != peer->peers.end();
  const std::uint64_t sent = any ? back->sends : 0;
  const std::uint64_t received = any ? back->receives : 0;
  if (traffic.receives > sent) {
    add({WaitPoint::Kind::kReceive, comm, sent + 1, waiter.rank, peer->rank, traffic.last});
  }
  if (traffic.sends > received) {
    add({WaitPoint::Kind::kSend, comm, received + 1, waiter.rank, peer->rank, traffic.last});
  }
}

bool WaitGraph::is_waiter(const WaitPoint& point, const MemberView& member) const {
  if (member.closed || !alive(member.rank)) return false;
  if (point.kind == WaitPoint::Kind::kInit) return member.initializing;
  const auto entered = entered_by(member);
  return entered && *entered > point.index;
}

template <class F>
void WaitGraph::for_each_waiter(const WaitPoint& point, F&& fn) const {
  if (point.kind == WaitPoint::Kind::kReceive || point.kind == WaitPoint::Kind::kSend) {
    ++visits_;
    fn(point.waiter);
    return;
  }
  for (const MemberView& member : view_.comms[point.comm].members) {
    ++visits_;
    if (is_waiter(point, member)) fn(member.rank);
  }
}

template <class F>
void WaitGraph::for_each_missing(const WaitPoint& point, F&& fn) const {
  const CommView& comm = view_.comms[point.comm];
  if (point.kind == WaitPoint::Kind::kReceive || point.kind == WaitPoint::Kind::kSend) {
    ++visits_;
    fn(point.peer);
    return;
  }
  if (point.kind == WaitPoint::Kind::kInit) {
    // Only where ranks of the communicator are ranks of the job is a missing one a known rank.
    auto next = comm.members.begin();
    for (std::int32_t rank = 0; comm.comm_ranks_are_job_ranks && rank < comm.size; ++rank) {
      ++visits_;
      while (next != comm.members.end() && next->comm_rank < rank) ++next;
      const bool entered = next != comm.members.end() && next->comm_rank == rank;
      if (!entered && view_.find(RankId{rank}) != nullptr) fn(RankId{rank});
    }
    return;
  }
  for (const MemberView& member : comm.members) {
    ++visits_;
    const auto entered = entered_by(member);
    if (entered && *entered <= point.index) fn(member.rank);
  }
}

RankSet WaitGraph::waiters(const WaitPoint& point) const {
  RankSet out;
  for_each_waiter(point, [&](RankId rank) { out.insert(rank); });
  return out;
}

RankSet WaitGraph::missing(const WaitPoint& point) const {
  RankSet out;
  for_each_missing(point, [&](RankId rank) { out.insert(rank); });
  return out;
}

RankSet WaitGraph::waiting_for(const RankSet& ranks) const {
  RankSet out;
  std::vector<bool> seen(points_.size());
  std::vector<RankId> open = ranks.ranks();
  while (!open.empty()) {
    const RankId rank = open.back();
    open.pop_back();
    for (const std::size_t point : awaited_at(rank)) {
      ++visits_;
      if (seen[point]) continue;
      seen[point] = true;
      for_each_waiter(points_[point], [&](RankId waiter) {
        if (out.contains(waiter)) return;
        out.insert(waiter);
        open.push_back(waiter);
      });
    }
  }
  return out - ranks;
}

std::vector<RankSet> WaitGraph::cycles() const {
  // Nodes: ranks first, then points. A rank leads to the points where it waits, a point to the
  // ranks that it misses.
  const std::size_t ranks = adjacency_.size();
  std::vector<std::vector<std::size_t>> missed_by(points_.size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const std::size_t point : adjacency_[rank].awaited) missed_by[point].push_back(rank);
    visits_ += adjacency_[rank].awaited.size() + adjacency_[rank].waits.size();
  }
  const auto components = strong_components(
      ranks + points_.size(),
      [&](std::size_t node) {
        return node < ranks ? adjacency_[node].waits.size() : missed_by[node - ranks].size();
      },
      [&](std::size_t node, std::size_t n) {
        return node < ranks ? ranks + adjacency_[node].waits[n] : missed_by[node - ranks][n];
      });
  std::vector<RankSet> out;
  for (const std::vector<std::size_t>& component : components) {
    if (component.size() < 2) continue;
    RankSet set;
    for (const std::size_t node : component) {
      if (node < ranks) set.insert(RankId{static_cast<std::int32_t>(node)});
    }
    if (set.count() >= 2) out.push_back(std::move(set));
  }
  return out;
}

}  // namespace rung
