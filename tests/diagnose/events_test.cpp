// rank.dead, rank.stopped, hang.collective_mismatch, init.rank_missing, pause.checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnose/diagnose.h"
#include "diagnose/rules.h"
#include "view_builder.h"

namespace rung {
namespace {

using testing::all_reduce;
using testing::at;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kinds;
using testing::ViewBuilder;

std::vector<Verdict> look(ViewBuilder& builder) {
  Resolver resolver;
  return diagnose(builder.view(), resolver);
}

ViewBuilder waiting_job(int world, double age, int missing) {
  ViewBuilder builder(world, 1000);
  builder.all_moved(1000 - age);
  builder.world_comm(101, 1000 - age);
  builder.enter(0, missing, 100, 1000 - age - 0.2);
  return builder;
}

TEST(RankDead, KilledRankAndItsWaitingPeers) {
  ViewBuilder builder = waiting_job(4, 10, 2);
  builder.exits(2, 990.1, std::nullopt, 9);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("rank.dead"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({2}));
  EXPECT_EQ(verdicts[0].waiting, RankSet({0, 1, 3}));
  EXPECT_EQ(verdicts[0].confidence, Confidence::kEstablished);
  EXPECT_EQ(verdicts[0].since, at(990.1));
  EXPECT_THAT(verdicts[0].summary, HasSubstr("ended by signal 9"));
}

TEST(RankDead, AtOnceWithoutAnyWait) {
  ViewBuilder builder(4, 1000);
  builder.world_comm(50, 999.9);
  builder.exits(1, 999.95, 1);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("rank.dead"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({1}));
}

TEST(RankDead, FirstDeathWinsOverTheTeardown) {
  ViewBuilder builder(4, 1000);
  builder.world_comm(50, 990);
  builder.exits(2, 991.0, 1);
  builder.exits(0, 991.3, std::nullopt, 15);
  builder.exits(1, 991.3, std::nullopt, 15);
  builder.exits(3, 991.4, std::nullopt, 15);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("rank.dead"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({2}));
}

// All noticed in one tick: the ones that were told to end are not the cause.
TEST(RankDead, TeardownInTheSameTick) {
  ViewBuilder builder(4, 1000);
  builder.exits(0, 991, std::nullopt, 15);
  builder.exits(1, 991, -6 & 0xff);
  builder.exits(2, 991, 143);
  builder.exits(3, 991, std::nullopt, 15);
  EXPECT_EQ(look(builder).at(0).ranks, RankSet({1}));
}

TEST(RankDead, AllLeavingWithZeroIsAnEnd) {
  ViewBuilder builder(4, 1000);
  builder.world_comm(50, 990);
  for (int rank = 0; rank < 4; ++rank) builder.exits(rank, 991 + rank, 0);
  EXPECT_THAT(look(builder), IsEmpty());
}

TEST(RankDead, CancelledJobAccusesNobody) {
  ViewBuilder builder(4, 1000);
  builder.exits(0, 991.00, std::nullopt, 15);
  builder.exits(1, 991.02, 143);
  builder.exits(2, 991.40, std::nullopt, 9);
  builder.exits(3, 991.05, std::nullopt, 15);
  EXPECT_THAT(look(builder), IsEmpty());
}

TEST(RankDead, TerminatedAloneIsADeath) {
  ViewBuilder builder = waiting_job(4, 10, 2);
  builder.exits(2, 990.1, std::nullopt, 15);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("rank.dead"));
}

TEST(RankDead, LeavingEarlyWithZeroWhilePeersWait) {
  ViewBuilder builder = waiting_job(4, 10, 2);
  builder.exits(2, 990.1, 0);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("rank.dead"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({2}));
  EXPECT_THAT(verdicts[0].summary, HasSubstr("exited with code 0"));
}

TEST(RankDead, LeavingWithZeroWhileNobodyWaits) {
  ViewBuilder builder(4, 1000);
  builder.world_comm(101, 999);
  builder.all_moved(999);
  builder.exits(2, 999.5, 0);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("healthy.communicating"));
}

TEST(RankDead, CrashAfterAllOthersEndedIsAWarning) {
  ViewBuilder builder(2, 1000);
  builder.exits(0, 990, 0);
  builder.exits(1, 991, std::nullopt, 11);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("rank.dead"));
  EXPECT_EQ(verdicts[0].severity, Severity::kWarning);
}

// Rank 2 held the job for ten minutes; then a watchdog ended rank 0. Both are told.
TEST(RankDead, WatchdogVictimDoesNotHideTheHang) {
  ViewBuilder builder = waiting_job(4, 600, 2);
  builder.exits(0, 990, std::nullopt, 6);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("rank.dead", "hang.rank_not_joined"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({0}));
  EXPECT_THAT(verdicts[0].not_established, Contains(HasSubstr("a watchdog may have ended it")));
  EXPECT_EQ(verdicts[1].ranks, RankSet({2}));
}

TEST(RankStopped, BySignal) {
  ViewBuilder builder = waiting_job(4, 10, 1);
  builder.rank(1).state = ProcessState::kStopped;
  builder.rank(1).state_since = at(990);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("rank.stopped"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({1}));
  EXPECT_EQ(verdicts[0].waiting, RankSet({0, 2, 3}));
  EXPECT_EQ(verdicts[0].severity, Severity::kError);
  EXPECT_EQ(verdicts[0].confidence, Confidence::kEstablished);
  EXPECT_THAT(verdicts[0].next, Contains(HasSubstr("kill -CONT 101")));
}

TEST(RankStopped, NotBeforeTwoSeconds) {
  ViewBuilder builder(2, 1000);
  builder.world_comm(5, 999);
  builder.all_moved(999);
  builder.rank(1).state = ProcessState::kStopped;
  builder.rank(1).state_since = at(998.5);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("healthy.communicating"));
}

TEST(RankStopped, ByADebuggerIsAWarningThatNamesIt) {
  ViewBuilder builder = waiting_job(4, 10, 1);
  builder.rank(1).state = ProcessState::kTraced;
  builder.rank(1).state_since = at(990);
  builder.rank(1).tracer_pid = 777;
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("rank.stopped"));
  EXPECT_EQ(verdicts[0].severity, Severity::kWarning);
  EXPECT_THAT(verdicts[0].summary, HasSubstr("process 777"));
}

// Late attach: no call was ever seen, and still a stopped rank is a positive sign.
TEST(RankStopped, NeedsNoProbes) {
  ViewBuilder builder(2, 1000);
  for (RankView& rank : builder.view().ranks) {
    rank.host_probes_flowing = false;
    rank.threads.clear();
    rank.last_launch_at = Unknown{};
  }
  builder.rank(1).state = ProcessState::kStopped;
  builder.rank(1).state_since = at(900);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("rank.stopped"));
}

// Everybody in one communicator, alternating 4 KiB and 256 KiB; rank `skipped` left one out.
ViewBuilder skipped_one(int world, int skipped, double age) {
  ViewBuilder builder(world, 1000);
  builder.all_moved(1000 - age);
  const std::size_t comm = builder.world_comm(0, 0);
  for (int rank = 0; rank < world; ++rank) {
    MemberView& member = builder.member(comm, rank);
    member.entered = std::uint64_t{104};
    member.last_entered_at = at(1000 - age);
    for (std::uint64_t index = 96; index < 104; ++index) {
      const bool late = rank == skipped && index >= 100;
      const bool large = ((index + (late ? 1 : 0)) % 2) == 1;
      member.tail.push_back({index, at(1000 - age), all_reduce(large ? 65536 : 1024)});
    }
  }
  return builder;
}

TEST(Mismatch, SkippedCollectiveOfAnotherSize) {
  ViewBuilder builder = skipped_one(4, 1, 6);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("hang.collective_mismatch"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({1}));
  EXPECT_EQ(verdicts[0].waiting, RankSet({0, 2, 3}));
  EXPECT_EQ(verdicts[0].confidence, Confidence::kEstablished);
  EXPECT_THAT(verdicts[0].summary, HasSubstr("index 100"));
  EXPECT_THAT(verdicts[0].summary,
              HasSubstr("ranks 0,2-3 asked for AllReduce of 1024 float32 (4 KiB)"));
  EXPECT_THAT(verdicts[0].summary,
              HasSubstr("rank 1 asked for AllReduce of 65536 float32 (256 KiB)"));
}

TEST(Mismatch, TwoRanksHaveNoMajority) {
  ViewBuilder builder = skipped_one(2, 1, 6);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("hang.collective_mismatch"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({0, 1}));
  EXPECT_THAT(verdicts[0].not_established, Contains(HasSubstr("which side is wrong")));
}

// Three of four agree, but four more are not observed: no majority of the communicator is known.
TEST(Mismatch, UnobservedMembersMayBeTheMajority) {
  ViewBuilder builder = skipped_one(4, 1, 6);
  builder.view().comms[0].size = 8;
  builder.view().world_size = 8;
  const auto verdicts = look(builder);
  ASSERT_EQ(verdicts.at(0).kind, "hang.collective_mismatch");
  EXPECT_EQ(verdicts[0].ranks.count(), 4U);
}

// The shorter count of the rank that skipped does not make it a rank that has not joined.
TEST(Mismatch, HidesTheWaitItCauses) {
  ViewBuilder builder = skipped_one(4, 1, 90);
  builder.member(0, 1).entered = std::uint64_t{103};
  builder.member(0, 1).tail.pop_back();
  EXPECT_THAT(kinds(look(builder)), ElementsAre("hang.collective_mismatch"));
}

TEST(Mismatch, NotWhileTheJobMoves) {
  ViewBuilder builder = skipped_one(4, 1, 3);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("healthy.communicating"));
}

// The job went on for a minute after it: it was harmless.
TEST(Mismatch, SurvivedDifferenceIsNoCause) {
  ViewBuilder builder = skipped_one(4, 1, 70);
  builder.all_moved(990);
  EXPECT_THAT(judge_hang_collective_mismatch(builder.view()), IsEmpty());
}

TEST(Mismatch, NeedsAbsoluteIndices) {
  ViewBuilder builder = skipped_one(4, 1, 6);
  builder.member(0, 1).entered = Unknown{"no absolute index"};
  EXPECT_THAT(judge_hang_collective_mismatch(builder.view()), IsEmpty());
}

TEST(Mismatch, DifferingReductionDoesNotBlock) {
  ViewBuilder builder(2, 1000);
  builder.all_moved(990);
  const std::size_t comm = builder.world_comm(10, 990);
  builder.member(comm, 1).tail.back().what.reduction = 2;
  EXPECT_THAT(judge_hang_collective_mismatch(builder.view()), IsEmpty());
}

TEST(Mismatch, RootOfABroadcast) {
  ViewBuilder builder(3, 1000);
  builder.all_moved(990);
  const std::size_t comm = builder.world_comm(10, 990);
  for (int rank = 0; rank < 3; ++rank) {
    builder.member(comm, rank).tail.back().what = {RUNG_OP_BROADCAST, 7, 0, rank == 2 ? 1 : 0, 64};
  }
  const auto verdicts = look(builder);
  ASSERT_EQ(verdicts.at(0).kind, "hang.collective_mismatch");
  EXPECT_EQ(verdicts[0].ranks, RankSet({2}));
  EXPECT_THAT(verdicts[0].summary, HasSubstr("root 1"));
}

ViewBuilder three_in_init(double age) {
  ViewBuilder builder(4, 1000);
  builder.all_moved(1000 - age);
  const std::size_t comm = builder.world_comm(0, 0);
  auto& members = builder.view().comms[comm].members;
  members.erase(members.begin() + 2);
  for (MemberView& member : members) {
    member.entered = Unknown{"in init"};
    member.initializing = true;
    member.init_entered_at = at(1000 - age);
  }
  return builder;
}

TEST(InitRankMissing, WarnsThenErrs) {
  ViewBuilder builder = three_in_init(9);
  EXPECT_THAT(judge_init_rank_missing(builder.view()), IsEmpty());
  builder = three_in_init(12);
  auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("init.rank_missing"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({2}));
  EXPECT_EQ(verdicts[0].waiting, RankSet({0, 1, 3}));
  EXPECT_EQ(verdicts[0].severity, Severity::kWarning);
  builder = three_in_init(61);
  verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("init.rank_missing"));
  EXPECT_EQ(verdicts[0].severity, Severity::kError);
}

TEST(InitRankMissing, ARankThatCannotBeSeenMayHaveCome) {
  ViewBuilder builder = three_in_init(61);
  builder.rank(2).coverage[0].stage = Stage::kRefused;
  EXPECT_THAT(judge_init_rank_missing(builder.view()), IsEmpty());
  builder = three_in_init(61);
  builder.rank(2).probes_since = at(950);  // after the others entered
  EXPECT_THAT(judge_init_rank_missing(builder.view()), IsEmpty());
  builder = three_in_init(61);
  builder.forget(2);
  EXPECT_THAT(judge_init_rank_missing(builder.view()), IsEmpty());
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.waiting_for_rank"));
  EXPECT_EQ(verdicts[0].unobserved, RankSet({2}));
}

TEST(InitRankMissing, ARankWithoutAnyCallYet) {
  ViewBuilder builder = three_in_init(61);
  RankView& rank = builder.rank(2);
  rank.host_probes_flowing = false;
  rank.threads.clear();
  rank.last_launch_at = Unknown{};
  EXPECT_EQ(judge_init_rank_missing(builder.view()).at(0).ranks, RankSet({2}));
}

// Its probes came late, but it has worked on for long while the others are in init.
TEST(InitRankMissing, ARankThatWorksOnIsNotInInit) {
  ViewBuilder builder = three_in_init(61);
  builder.rank(2).probes_since = at(950);
  ViewBuilder::moved(builder.rank(2), 990);
  EXPECT_EQ(judge_init_rank_missing(builder.view()).at(0).ranks, RankSet({2}));
}

TEST(InitRankMissing, DeathExplainsIt) {
  ViewBuilder builder = three_in_init(61);
  builder.exits(2, 939, 1);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("rank.dead"));
}

TEST(Checkpoint, RankZeroWritesWhilePeersSpin) {
  ViewBuilder builder = waiting_job(8, 30, 0);
  builder.gpus_busy();
  builder.rank(0).activity.written_bytes = std::uint64_t{2} << 30;
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("pause.checkpoint"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({0}));
  EXPECT_EQ(verdicts[0].severity, Severity::kInfo);
  EXPECT_THAT(verdicts[0].summary, HasSubstr("2 GiB"));
}

TEST(Checkpoint, StaysAPauseHoweverLong) {
  ViewBuilder builder = waiting_job(8, 600, 0);
  builder.rank(0).activity.written_bytes = std::uint64_t{2} << 30;
  EXPECT_THAT(kinds(look(builder)), ElementsAre("pause.checkpoint"));
}

TEST(Checkpoint, AllRanksWrite) {
  ViewBuilder builder(4, 1000);
  builder.all_moved(980);
  builder.world_comm(10, 980);
  for (RankView& rank : builder.view().ranks) {
    rank.activity.written_bytes = std::uint64_t{1} << 30;
  }
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("pause.checkpoint"));
  EXPECT_EQ(verdicts[0].ranks.count(), 4U);
}

TEST(Checkpoint, UnknownBytesAreNoCheckpoint) {
  ViewBuilder builder = waiting_job(8, 30, 0);
  builder.rank(0).activity.written_bytes = Unknown{"no right"};
  EXPECT_THAT(kinds(look(builder)), ElementsAre("stall.waiting_for_rank"));
}

// A write in the background while training goes on is no pause.
TEST(Checkpoint, AsynchronousWriteIsNone) {
  ViewBuilder builder(4, 1000);
  builder.all_moved(999.9);
  builder.world_comm(10, 999.9);
  builder.rank(0).activity.written_bytes = std::uint64_t{2} << 30;
  EXPECT_THAT(kinds(look(builder)), ElementsAre("healthy.communicating"));
}

// One rank writes and another is stuck: the stuck one is named.
TEST(Checkpoint, DoesNotHideAnotherRank) {
  ViewBuilder builder = waiting_job(8, 90, 0);
  builder.enter(0, 5, 100, 909);
  builder.rank(0).activity.written_bytes = std::uint64_t{2} << 30;
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("hang.rank_not_joined", "pause.checkpoint"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({5}));
}

}  // namespace
}  // namespace rung
