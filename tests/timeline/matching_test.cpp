#include "timeline/matching.h"

#include <gtest/gtest.h>

namespace rung {
namespace {

JobNs at(double seconds) { return job_ns(static_cast<std::int64_t>(seconds * 1e9)); }

CommView comm_of(std::int32_t size, const std::vector<std::uint64_t>& entered) {
  CommView comm;
  comm.id = CommId{0xabc, CommId::Source::kMemory};
  comm.size = size;
  for (std::size_t i = 0; i < entered.size(); ++i) {
    MemberView member;
    member.rank = RankId{static_cast<std::int32_t>(i)};
    member.comm_rank = static_cast<std::int32_t>(i);
    member.entered = entered[i];
    member.last_entered_at = at(10);
    for (std::uint64_t index = 0; index < entered[i]; ++index) {
      member.tail.push_back({index, at(static_cast<double>(index)),
                             CollectiveSignature{RUNG_OP_ALL_REDUCE, 7, 0, -1, 1024}});
    }
    comm.members.push_back(std::move(member));
  }
  return comm;
}

TEST(Matching, AllJoined) {
  const CommMatch match = match_collectives(comm_of(3, {5, 5, 5}));
  EXPECT_TRUE(match.all_joined());
  EXPECT_FALSE(match.pending());
  EXPECT_EQ(match.counted, 3U);
}

TEST(Matching, FrontierAndWhoJoined) {
  const CommView comm = comm_of(4, {5, 4, 7, 5});
  const CommMatch match = match_collectives(comm);
  EXPECT_TRUE(match.pending());
  EXPECT_EQ(match.complete, 4U);
  EXPECT_EQ(match.frontier, 7U);
  EXPECT_EQ(joined(comm, 4), RankSet({0, 2, 3}));
  EXPECT_EQ(not_joined(comm, 4), RankSet({1}));
  EXPECT_EQ(joined(comm, 5), RankSet({2}));
  EXPECT_EQ(joined(comm, 7), RankSet());
}

TEST(Matching, UnobservedMembersAreNotJoined) {
  const CommMatch match = match_collectives(comm_of(8, {5, 5, 5}));
  EXPECT_EQ(match.unobserved, 5U);
  EXPECT_FALSE(match.all_joined());
  EXPECT_FALSE(match.pending());
}

TEST(Matching, UnknownCountsAreNotComparable) {
  CommView comm = comm_of(3, {5, 5, 2});
  comm.members[2].entered = Unknown{"could not be read"};
  CommMatch match = match_collectives(comm);
  EXPECT_EQ(match.uncounted, 1U);
  EXPECT_FALSE(match.pending());
  EXPECT_FALSE(match.all_joined());
  comm = comm_of(3, {5, 5, 2});
  comm.members[2].captured = true;
  match = match_collectives(comm);
  EXPECT_TRUE(match.captured);
  EXPECT_FALSE(match.pending());
}

TEST(Matching, SizeThatContradictsTheMembersIsUnknown) {
  const CommMatch match = match_collectives(comm_of(2, {5, 5, 5}));
  EXPECT_FALSE(match.size_known);
  EXPECT_FALSE(match.all_joined());
}

TEST(Matching, PointToPointAloneIsNoCollective) {
  CommView comm = comm_of(2, {0, 0});
  for (MemberView& member : comm.members) {
    member.entered = Unknown{"none was seen"};
    member.peers = {{0, 1, 1, at(5)}};
  }
  EXPECT_EQ(match_collectives(comm).uncounted, 0U);
}

TEST(Mismatches, FirstIndexAndSides) {
  CommView comm = comm_of(4, {6, 6, 6, 6});
  comm.members[1].tail[3].what.count = 99;
  comm.members[1].tail[5].what.count = 99;
  const auto mismatch = first_mismatch(comm);
  ASSERT_TRUE(mismatch);
  EXPECT_EQ(mismatch->index, 3U);
  ASSERT_EQ(mismatch->sides.size(), 2U);
  EXPECT_EQ(mismatch->sides[0].ranks, RankSet({0, 2, 3}));
  EXPECT_EQ(mismatch->sides[1].ranks, RankSet({1}));
  EXPECT_EQ(mismatch->majority, 0U);
}

TEST(Mismatches, TailsThatDoNotOverlapSayNothing) {
  CommView comm = comm_of(2, {6, 6});
  comm.members[0].tail.erase(comm.members[0].tail.begin(), comm.members[0].tail.begin() + 4);
  comm.members[1].tail.resize(4);
  comm.members[1].tail[0].what.count = 1;
  EXPECT_FALSE(first_mismatch(comm));
}

TEST(Mismatches, ThreeSidesWithoutMajority) {
  CommView comm = comm_of(3, {2, 2, 2});
  comm.members[1].tail[1].what.count = 1;
  comm.members[2].tail[1].what.op = RUNG_OP_ALL_GATHER;
  const auto mismatch = first_mismatch(comm);
  ASSERT_TRUE(mismatch);
  EXPECT_EQ(mismatch->sides.size(), 3U);
  EXPECT_FALSE(mismatch->majority);
}

TEST(Mismatches, NoneWhenAllAgreeOrIndicesAreRelative) {
  CommView comm = comm_of(3, {4, 5, 6});
  EXPECT_FALSE(first_mismatch(comm));
  comm.members[0].tail[1].what.count = 1;
  comm.members[0].entered = Unknown{"relative"};
  EXPECT_FALSE(first_mismatch(comm));
}

}  // namespace
}  // namespace rung
