// WaitGraph: who waits for whom, from what each rank has entered and others have not.
//
// A rank waits where it has entered an operation that another member has not. The ranks that
// others wait for and that wait for nobody are the sinks: the suspects. Points where ranks wait
// are nodes of their own, so a communicator of n members costs n, never n * n.
#pragma once

#include <cstdint>
#include <vector>

#include "model/job_view.h"
#include "timeline/matching.h"
#include "timeline/movement.h"

namespace rung {

// A rank cannot still be blocked by an operation that it entered this long before it last worked:
// a host runs ahead of its device by at most the launch queue (about a thousand kernels), and a
// queue of long ones lasts seconds, not half a minute.
inline constexpr std::chrono::seconds kLongestRunAhead{30};

// One place where ranks wait.
struct WaitPoint {
  enum class Kind : std::uint8_t {
    kCollective,  // collective `index` of the communicator
    kInit,        // the making of the communicator
    kReceive,     // the `index`-th receive of `waiter` from `peer`, counted from 1
    kSend,        // likewise for a send
  };
  Kind kind = Kind::kCollective;
  std::size_t comm = 0;     // index into JobView::comms
  std::uint64_t index = 0;  // see kind
  RankId waiter;            // of kReceive and kSend
  RankId peer;              // likewise
  JobNs entered{};          // likewise: the waiter's newest call with that peer
};

class WaitGraph {
 public:
  // The view must outlive the graph.
  WaitGraph(const JobView& view, const Movement& movement);

  const std::vector<WaitPoint>& points() const { return points_; }
  RankSet waiters(const WaitPoint& point) const;
  RankSet missing(const WaitPoint& point) const;  // observed ranks that have not joined

  // Points at which this rank waits, and at which others wait for it (indices into points()).
  const std::vector<std::size_t>& waits_at(RankId rank) const;
  const std::vector<std::size_t>& awaited_at(RankId rank) const;

  const RankSet& waiting() const { return waiting_; }  // wait for an observed rank
  const RankSet& awaited() const { return awaited_; }  // an observed rank waits for them
  RankSet sinks() const { return awaited_ - waiting_; }

  // Ranks that may wait for members which are not observed at all.
  const RankSet& may_wait_for_unobserved() const { return may_wait_for_unobserved_; }
  // Ranks that may wait where counts do not show it: captured graphs, unidentified
  // communicators, members without comparable counts.
  const RankSet& may_wait_unseen() const { return may_wait_unseen_; }
  // Indices into JobView::comms of those behind may_wait_for_unobserved().
  const std::vector<std::size_t>& unobserved_comms() const { return unobserved_comms_; }

  // All ranks that wait for one of these, directly or through others.
  RankSet waiting_for(const RankSet& ranks) const;

  // Sets of two or more ranks that all wait for each other.
  std::vector<RankSet> cycles() const;

  // Members and edges looked at so far: grows with the memberships, not with their square.
  std::uint64_t visits() const { return visits_; }

 private:
  struct Adjacency {
    std::vector<std::size_t> waits;    // points
    std::vector<std::size_t> awaited;  // points
  };

  void add_collectives(std::size_t comm, const CommMatch& match);
  void add_init(std::size_t comm);
  void add_point_to_point(std::size_t comm);
  void add_peer_waits(std::size_t comm, const MemberView& member, const PeerTraffic& traffic);
  void mark_unseen(std::size_t comm, const CommMatch& match);
  void add(const WaitPoint& point);
  void mark_waiting(RankId rank, std::size_t point);
  void mark_awaited(RankId rank, std::size_t point);
  bool alive(RankId rank) const;
  // False when the rank has worked so long after `entered` that it cannot wait there any more.
  bool may_still_wait(RankId rank, JobNs entered) const;
  bool is_waiter(const WaitPoint& point, const MemberView& member) const;
  const MemberView* member(std::size_t comm, std::int32_t comm_rank) const;
  // Calls fn(RankId) for each waiter or missing observed rank of a point.
  template <class F>
  void for_each_waiter(const WaitPoint& point, F&& fn) const;
  template <class F>
  void for_each_missing(const WaitPoint& point, F&& fn) const;
  const Adjacency& of(RankId rank) const;

  const JobView& view_;
  const Movement& movement_;
  std::vector<WaitPoint> points_;
  std::vector<Adjacency> adjacency_;  // index: rank
  RankSet alive_;
  RankSet waiting_;
  RankSet awaited_;
  RankSet may_wait_for_unobserved_;
  RankSet may_wait_unseen_;
  std::vector<std::size_t> unobserved_comms_;
  mutable std::uint64_t visits_ = 0;
};

}  // namespace rung
