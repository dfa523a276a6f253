#include "timeline/wait_graph.h"

#include <gtest/gtest.h>

#include "timeline/components.h"

namespace rung {
namespace {

JobNs at(double seconds) { return job_ns(static_cast<std::int64_t>(seconds * 1e9)); }

JobView job_of(std::int32_t ranks) {
  JobView view;
  view.world_size = ranks;
  view.now = at(1000);
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    RankView& r = view.ranks.emplace_back();
    r.rank = RankId{rank};
    r.last_launch_at = at(900);
    r.host_probes_flowing = true;
  }
  return view;
}

CommView& add_comm(JobView& view, const std::vector<std::int32_t>& ranks,
                   const std::vector<std::uint64_t>& entered) {
  CommView& comm = view.comms.emplace_back();
  comm.id = CommId{0x100 + view.comms.size(), CommId::Source::kMemory};
  comm.size = static_cast<std::int32_t>(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    MemberView& member = comm.members.emplace_back();
    member.rank = RankId{ranks[i]};
    member.comm_rank = static_cast<std::int32_t>(i);
    member.entered = entered[i];
    member.last_entered_at = at(900);
    member.peers_comparable = true;
  }
  return comm;
}

TEST(WaitGraph, ChainEndsAtTheOneThatWaitsForNobody) {
  JobView view = job_of(4);
  add_comm(view, {0, 1}, {5, 4});  // 0 waits for 1
  add_comm(view, {1, 2}, {3, 2});  // 1 waits for 2
  add_comm(view, {2, 3}, {9, 9});
  const Movement movement(view);
  const WaitGraph graph(view, movement);
  EXPECT_EQ(graph.sinks(), RankSet({2}));
  EXPECT_EQ(graph.waiting(), RankSet({0, 1}));
  EXPECT_EQ(graph.waiting_for({2}), RankSet({0, 1}));
  EXPECT_TRUE(graph.cycles().empty());
}

TEST(WaitGraph, WaitsForTheOldestIncompleteCollectiveOnly) {
  JobView view = job_of(3);
  add_comm(view, {0, 1, 2}, {9, 8, 7});  // 1 is behind 0, but both wait for 2
  const Movement movement(view);
  const WaitGraph graph(view, movement);
  EXPECT_EQ(graph.sinks(), RankSet({2}));
  EXPECT_EQ(graph.waiting(), RankSet({0, 1}));
}

TEST(WaitGraph, CyclesAreReportedAsSuch) {
  JobView view = job_of(5);
  add_comm(view, {0, 1}, {5, 4});
  add_comm(view, {1, 2}, {5, 4});
  add_comm(view, {2, 0}, {5, 4});
  add_comm(view, {3, 0}, {5, 4});  // 3 waits for the cycle and is no part of it
  const Movement movement(view);
  const WaitGraph graph(view, movement);
  EXPECT_TRUE(graph.sinks().empty());
  ASSERT_EQ(graph.cycles().size(), 1U);
  EXPECT_EQ(graph.cycles()[0], RankSet({0, 1, 2}));
}

TEST(WaitGraph, PointToPointBothWays) {
  JobView view = job_of(3);
  CommView& comm = add_comm(view, {0, 1, 2}, {0, 0, 0});
  comm.members[0].peers = {{1, 3, 0, at(900)}};                      // sent 3 to 1
  comm.members[1].peers = {{0, 0, 2, at(900)}, {2, 0, 1, at(900)}};  // received 2, wants 1 of 2
  const Movement movement(view);
  const WaitGraph graph(view, movement);
  ASSERT_EQ(graph.points().size(), 2U);
  EXPECT_EQ(graph.points()[0].kind, WaitPoint::Kind::kSend);
  EXPECT_EQ(graph.points()[0].index, 3U);
  EXPECT_EQ(graph.points()[1].kind, WaitPoint::Kind::kReceive);
  EXPECT_EQ(graph.points()[1].index, 1U);
  EXPECT_EQ(graph.sinks(), RankSet({2}));
}

TEST(WaitGraph, PeersCountedSinceDifferentMomentsAreNotCompared) {
  JobView view = job_of(2);
  CommView& comm = add_comm(view, {0, 1}, {0, 0});
  comm.members[0].peers = {{1, 3, 0, at(900)}};
  comm.members[1].peers = {{0, 0, 2, at(900)}};
  comm.members[1].peers_comparable = false;
  const Movement movement(view);
  const WaitGraph graph(view, movement);
  EXPECT_TRUE(graph.points().empty());
  EXPECT_TRUE(graph.may_wait_unseen().contains(RankId{0}));
}

TEST(WaitGraph, GoneAndClosedMembersDoNotWait) {
  JobView view = job_of(3);
  CommView& comm = add_comm(view, {0, 1, 2}, {5, 5, 4});
  view.ranks[0].exit = ExitView{};
  comm.members[1].closed = true;
  const Movement movement(view);
  const WaitGraph graph(view, movement);
  EXPECT_TRUE(graph.waiting().empty());
  EXPECT_TRUE(graph.sinks().empty());
}

TEST(WaitGraph, UnobservedMembersMayBeWaitedFor) {
  JobView view = job_of(2);
  add_comm(view, {0, 1}, {5, 5}).size = 4;
  const Movement movement(view);
  const WaitGraph graph(view, movement);
  EXPECT_EQ(graph.may_wait_for_unobserved(), RankSet({0, 1}));
  EXPECT_TRUE(graph.points().empty());
}

// It worked for a minute after its last collective there: it cannot still wait in it.
TEST(WaitGraph, LongWorkSinceExcludesAWait) {
  JobView view = job_of(2);
  CommView& comm = add_comm(view, {0, 1}, {5, 5});
  comm.size = 4;
  for (MemberView& member : comm.members) member.last_entered_at = at(840);
  const Movement movement(view);
  const WaitGraph graph(view, movement);
  EXPECT_TRUE(graph.may_wait_for_unobserved().empty());
}

TEST(WaitGraph, InitWaitsForTheOnesThatHaveNotCome) {
  JobView view = job_of(4);
  CommView& comm = add_comm(view, {0, 1, 3}, {0, 0, 0});
  comm.size = 4;
  comm.members[2].comm_rank = 3;
  comm.comm_ranks_are_job_ranks = true;
  for (MemberView& member : comm.members) member.initializing = true;
  const Movement movement(view);
  const WaitGraph graph(view, movement);
  ASSERT_EQ(graph.points().size(), 1U);
  EXPECT_EQ(graph.points()[0].kind, WaitPoint::Kind::kInit);
  EXPECT_EQ(graph.sinks(), RankSet({2}));
}

// The work grows with the members, not with pairs of them.
TEST(WaitGraph, HundredThousandMembers) {
  constexpr std::int32_t kMembers = 100'000;
  JobView view = job_of(kMembers);
  std::vector<std::int32_t> ranks;
  std::vector<std::uint64_t> entered;
  for (std::int32_t rank = 0; rank < kMembers; ++rank) {
    ranks.push_back(rank);
    entered.push_back(rank % 2 == 0 ? 1000 : 999);  // the worst case for edges: half and half
  }
  add_comm(view, ranks, entered);
  const Movement movement(view);
  const WaitGraph graph(view, movement);
  EXPECT_EQ(graph.sinks().count(), static_cast<std::size_t>(kMembers) / 2);
  EXPECT_EQ(graph.waiting_for(graph.sinks()).count(), static_cast<std::size_t>(kMembers) / 2);
  EXPECT_TRUE(graph.cycles().empty());
  EXPECT_LE(graph.visits(), 20ULL * kMembers);
}

TEST(Components, FoundWithoutRecursion) {
  // A long chain into a ring of three: recursion would need a deep stack.
  constexpr std::size_t kChain = 200'000;
  const auto degree = [](std::size_t) { return std::size_t{1}; };
  const auto target = [](std::size_t node, std::size_t) {
    return node < kChain ? node + 1 : kChain + (node - kChain + 1) % 3;
  };
  const auto components = strong_components(kChain + 3, degree, target);
  ASSERT_EQ(components.size(), kChain + 1);
  EXPECT_EQ(components.front().size(), 3U);  // what others lead to comes first
}

TEST(Movements, WaitingAndPollingAreNone) {
  JobView view = job_of(1);
  view.ranks[0].threads = {{1, RUNG_CALL_SYNC, "cuStreamSynchronize", at(990), 'R'},
                           {2, RUNG_CALL_COPY, "cuMemcpyAsync", at(950), 'S'}};
  view.ranks[0].last_call_at = at(990);
  const Movement movement(view);
  EXPECT_EQ(movement.of(RankId{0}), at(950));
  EXPECT_EQ(movement.newest(), at(950));
  EXPECT_FALSE(movement.newest_communication());
  EXPECT_FALSE(movement.of(RankId{7}));
}

}  // namespace
}  // namespace rung
