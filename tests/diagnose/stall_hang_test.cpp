// stall.* and hang.rank_not_joined, hang.no_progress: when, who, and when not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnose/diagnose.h"
#include "diagnose/rules.h"
#include "view_builder.h"

namespace rung {
namespace {

using testing::at;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kinds;
using testing::ViewBuilder;

// Rank 3 of 8 has not joined collective 100; everybody stands still for `age`.
ViewBuilder rank_3_missing(double age) {
  ViewBuilder builder(8, 1000);
  builder.all_moved(1000 - age);
  const std::size_t comm = builder.world_comm(101, 1000 - age);
  builder.enter(comm, 3, 100, 1000 - age - 0.2);
  return builder;
}

// All have joined; all wait in a sync since `age`.
ViewBuilder all_joined(double age) {
  ViewBuilder builder(8, 1000);
  builder.all_moved(1000 - age);
  builder.world_comm(101, 1000 - age);
  builder.gpus_busy();
  return builder;
}

std::vector<Verdict> look(ViewBuilder& builder) {
  Resolver resolver;
  return diagnose(builder.view(), resolver);
}

TEST(Stall, NamesTheRankThatHasNotJoined) {
  ViewBuilder builder = rank_3_missing(6);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.waiting_for_rank"));
  const Verdict& v = verdicts[0];
  EXPECT_EQ(v.ranks, RankSet({3}));
  EXPECT_EQ(v.waiting, RankSet({0, 1, 2, 4, 5, 6, 7}));
  EXPECT_EQ(v.severity, Severity::kInfo);
  EXPECT_EQ(v.confidence, Confidence::kEstablished);
  EXPECT_EQ(v.since, at(994));
  EXPECT_THAT(v.summary, HasSubstr("rank 3 has not joined AllReduce of 262144 float32 (1 MiB)"));
  EXPECT_THAT(v.summary, HasSubstr("communicator 0x0000000000000abc, index 100"));
  EXPECT_THAT(v.summary, HasSubstr("cuStreamSynchronize"));
  EXPECT_THAT(v.next, ::testing::Contains(HasSubstr("py-spy dump --pid 103")));
  EXPECT_FALSE(v.not_established.empty());
}

TEST(Stall, NotBeforeFiveSeconds) {
  ViewBuilder builder = rank_3_missing(4.9);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("healthy.communicating"));
}

TEST(Stall, SlowRankThatStillMovesIsNone) {
  ViewBuilder builder = rank_3_missing(40);
  ViewBuilder::moved(builder.rank(3), 997);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("healthy.computing"));
}

TEST(Stall, PollingIsNoMovement) {
  ViewBuilder builder = rank_3_missing(6);
  builder.rank(3).threads.insert(builder.rank(3).threads.begin(),
                                 {999, RUNG_CALL_SYNC, "cuEventSynchronize", at(999.9), 'S'});
  builder.rank(3).last_call_at = at(999.9);
  EXPECT_EQ(look(builder).at(0).ranks, RankSet({3}));
}

// Ranks that enqueue far ahead have entered more; while they move this is ordinary.
TEST(Stall, RunAheadIsNormal) {
  ViewBuilder builder(4, 1000);
  builder.all_moved(999.5);
  const std::size_t comm = builder.world_comm(100, 999.5);
  builder.enter(comm, 1, 180, 999.6);
  builder.enter(comm, 2, 99, 999.4);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("healthy.communicating"));
}

// Those that ran ahead are no suspects when the job does stand still.
TEST(Stall, RunAheadRanksAreNotNamed) {
  ViewBuilder builder = rank_3_missing(8);
  builder.enter(0, 5, 140, 992);
  EXPECT_EQ(look(builder).at(0).ranks, RankSet({3}));
}

TEST(Stall, WaiterThatStillMovesDoesNotWait) {
  ViewBuilder builder(2, 1000);
  const std::size_t comm = builder.world_comm(11, 990);
  builder.enter(comm, 1, 10, 989);
  ViewBuilder::moved(builder.rank(1), 990);
  ViewBuilder::moved(builder.rank(0), 999.9);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("healthy.computing"));
}

TEST(Stall, ThinnedLaunchProbesNeedLongerSilence) {
  ViewBuilder builder = rank_3_missing(8);
  for (RankView& rank : builder.view().ranks) rank.launches_thinned = true;
  EXPECT_THAT(judge_stall_waiting_for_rank(builder.view()), IsEmpty());
  builder = rank_3_missing(16);
  for (RankView& rank : builder.view().ranks) rank.launches_thinned = true;
  EXPECT_THAT(kinds(look(builder)), ElementsAre("observer.over_budget", "stall.waiting_for_rank"));
}

TEST(Hang, AfterAMinuteOfInactivity) {
  ViewBuilder builder = rank_3_missing(61);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("hang.rank_not_joined"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({3}));
  EXPECT_EQ(verdicts[0].severity, Severity::kError);
  builder = rank_3_missing(59);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("stall.waiting_for_rank"));
}

TEST(Hang, NotBeforeThreeTimesTheJobsOwnGaps) {
  ViewBuilder builder = rank_3_missing(100);
  builder.view().baseline.gap_p999 = std::chrono::nanoseconds(std::chrono::seconds(40));
  EXPECT_THAT(kinds(look(builder)), ElementsAre("stall.waiting_for_rank"));
  builder = rank_3_missing(121);
  builder.view().baseline.gap_p999 = std::chrono::nanoseconds(std::chrono::seconds(40));
  EXPECT_THAT(kinds(look(builder)), ElementsAre("hang.rank_not_joined"));
}

// What keeps an old stall from being called a hang, and the sentence that says so.
struct Activity5 {
  const char* name;
  void (*change)(RankView&);
  const char* says;
};
class HangNeedsInactivity : public ::testing::TestWithParam<Activity5> {};

TEST_P(HangNeedsInactivity, StaysAStallAndSaysWhy) {
  ViewBuilder builder = rank_3_missing(300);
  GetParam().change(builder.rank(3));
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.waiting_for_rank"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({3}));
  EXPECT_EQ(verdicts[0].severity, Severity::kWarning);
  EXPECT_THAT(verdicts[0].not_established, ::testing::Contains(HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    All, HangNeedsInactivity,
    ::testing::Values(
        Activity5{"reads", [](RankView& r) { r.activity.read_bytes = std::uint64_t{50 << 20}; },
                  "it read 50 MiB in 10.0 s"},
        Activity5{"writes_little",
                  [](RankView& r) { r.activity.written_bytes = std::uint64_t{1 << 20}; },
                  "it wrote 1 MiB"},
        Activity5{"compiles", [](RankView& r) { r.activity.child_compilers = 1; },
                  "it runs a compiler"},
        Activity5{"works_outside_cuda",
                  [](RankView& r) { r.activity.cpu_outside_cuda_share = 0.9; },
                  "90.0 % of a core outside CUDA"},
        Activity5{"cpu_place_unknown",
                  [](RankView& r) { r.activity.cpu_outside_cuda_share = Unknown{"not sampled"}; },
                  "98 % of a core and where is not known"},
        Activity5{"io_unknown", [](RankView& r) { r.activity.read_bytes = Unknown{"no right"}; },
                  "its I/O could not be read"},
        Activity5{"not_sampled", [](RankView& r) { r.activity = Activity{}; }, "not sampled yet"}),
    [](const auto& param) { return param.param.name; });

TEST(Hang, SleepingRankNeedsNoCpuPlace) {
  ViewBuilder builder = rank_3_missing(61);
  builder.rank(3).activity.cpu_share = 0.002;
  builder.rank(3).activity.cpu_outside_cuda_share = Unknown{"not sampled"};
  EXPECT_THAT(kinds(look(builder)), ElementsAre("hang.rank_not_joined"));
}

TEST(Hang, LogLinesAreNoActivity) {
  ViewBuilder builder = rank_3_missing(61);
  builder.rank(3).activity.written_bytes = std::uint64_t{8 << 10};
  EXPECT_THAT(kinds(look(builder)), ElementsAre("hang.rank_not_joined"));
}

// A dead file system: state D, no byte moves. Neither a checkpoint nor activity.
TEST(Hang, DeadFileSystemIsNoCheckpoint) {
  ViewBuilder builder = rank_3_missing(61);
  RankView& rank = builder.rank(3);
  rank.state = ProcessState::kDiskSleep;
  rank.wait_channel = "rpc_wait_bit_killable";
  rank.activity.threads_disk_sleep = 1;
  rank.activity.cpu_share = 0.0;
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("hang.rank_not_joined"));
  bool told = false;
  for (const Fact& fact : verdicts[0].evidence) {
    told = told || fact.fact.find("rpc_wait_bit_killable") != std::string::npos;
  }
  EXPECT_TRUE(told);
}

TEST(NoProgress, LongKernelIsAStallNotAHang) {
  ViewBuilder builder = all_joined(30);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.no_progress"));
  EXPECT_TRUE(verdicts[0].ranks.empty());
  EXPECT_EQ(verdicts[0].waiting.count(), 8U);
  EXPECT_EQ(verdicts[0].severity, Severity::kInfo);
  EXPECT_THAT(verdicts[0].summary, HasSubstr("all ranks have joined every collective"));
}

TEST(NoProgress, HangAfterAMinuteWhenAllAreInactive) {
  ViewBuilder builder = all_joined(61);
  EXPECT_THAT(kinds(look(builder)), ElementsAre("hang.no_progress"));
  builder.rank(6).activity.cpu_outside_cuda_share = 0.5;
  EXPECT_THAT(kinds(look(builder)), ElementsAre("stall.no_progress"));
}

TEST(NoProgress, AnIdleServerIsNoHang) {
  ViewBuilder builder = all_joined(3600);
  for (RankView& rank : builder.view().ranks) {
    rank.device->utilization_percent = 0;
    rank.activity.cpu_share = 0.01;
  }
  EXPECT_THAT(kinds(look(builder)), ElementsAre("unknown.insufficient_evidence"));
}

// Without a word on the devices and on where the CPU goes a wait cannot be told from idleness.
TEST(NoProgress, WithoutDeviceAndCpuPlaceItStaysAStall) {
  ViewBuilder builder = all_joined(3600);
  for (RankView& rank : builder.view().ranks) {
    rank.device.reset();
    rank.activity.cpu_share = 0.01;
    rank.activity.cpu_outside_cuda_share = Unknown{"not sampled"};
  }
  EXPECT_THAT(kinds(look(builder)), ElementsAre("stall.no_progress"));
}

TEST(NoProgress, CommunicatorInitNeverBecomesAHang) {
  ViewBuilder builder(4, 1000);
  builder.all_moved(900);
  builder.gpus_busy();
  const std::size_t comm = builder.world_comm(0, 0);
  for (MemberView& member : builder.view().comms[comm].members) {
    member.entered = Unknown{"in init"};
    member.initializing = true;
    member.init_entered_at = at(900);
  }
  EXPECT_THAT(kinds(look(builder)), ElementsAre("stall.no_progress"));
}

TEST(Abstain, LateAttachSeesNothing) {
  ViewBuilder builder(8, 1000);
  builder.gpus_busy();
  for (RankView& rank : builder.view().ranks) {
    rank.threads.clear();
    rank.last_call_at = Unknown{};
    rank.last_launch_at = Unknown{};
    rank.host_probes_flowing = false;
    rank.probes_since = at(900);
  }
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("unknown.insufficient_evidence"));
  EXPECT_TRUE(verdicts[0].ranks.empty());
}

// Attached while the last rank still moved: it alone was seen, and nothing follows from that.
TEST(Abstain, LateAttachThatSawOneRankMove) {
  ViewBuilder builder(2, 1000);
  builder.gpus_busy();
  const std::size_t comm = builder.world_comm(100, 950);
  MemberView& unseen = builder.member(comm, 0);
  unseen.entered = Unknown{"no collective was seen"};
  unseen.tail.clear();
  unseen.last_entered_at = JobNs{};
  builder.rank(0).host_probes_flowing = false;
  builder.rank(0).threads.clear();
  builder.rank(0).last_launch_at = Unknown{};
  ViewBuilder::moved(builder.rank(1), 950);
  for (const Verdict& verdict : look(builder)) EXPECT_TRUE(verdict.ranks.empty()) << verdict.kind;
}

TEST(Abstain, RankWithoutHostCoverageIsNotAccused) {
  for (const bool stale : {true, false}) {
    ViewBuilder builder = rank_3_missing(100);
    if (stale) {
      builder.rank(3).coverage[0].stage = Stage::kStale;
    } else {
      builder.rank(3).host_probes_flowing = false;
    }
    for (const Verdict& verdict : look(builder)) {
      if (family_of(verdict.kind) == "observer") continue;
      EXPECT_FALSE(verdict.ranks.contains(RankId{3})) << verdict.kind;
    }
  }
}

TEST(Abstain, UnidentifiedCommunicators) {
  ViewBuilder builder = rank_3_missing(100);
  builder.view().unidentified_comms = true;
  for (const Verdict& verdict : look(builder)) EXPECT_TRUE(verdict.ranks.empty()) << verdict.kind;
  // Told whose they are: those of others do not protect rank 3.
  builder.rank(5).unidentified_comms = true;
  EXPECT_EQ(look(builder).at(0).ranks, RankSet({3}));
}

TEST(Abstain, CapturedCommunicators) {
  ViewBuilder builder = rank_3_missing(100);
  for (MemberView& member : builder.view().comms[0].members) member.captured = true;
  for (const Verdict& verdict : look(builder)) {
    EXPECT_TRUE(verdict.ranks.empty()) << verdict.kind;
    EXPECT_EQ(family_of(verdict.kind), "stall");
  }
}

// The rank that has not joined may wait inside a graph of another communicator.
TEST(Abstain, SuspectWithAnotherCapturedCommunicator) {
  ViewBuilder builder = rank_3_missing(100);
  const std::size_t other = builder.comm(0xdef, {2, 3}, 10, 900);
  builder.member(other, 3).captured = true;
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.no_progress"));
  EXPECT_TRUE(verdicts[0].ranks.empty());
  EXPECT_THAT(verdicts[0].not_established, ::testing::Contains(HasSubstr("rank 3 has not joined")));
}

TEST(Abstain, UnknownCountOfTheSuspect) {
  ViewBuilder builder = rank_3_missing(100);
  builder.member(0, 3).entered = Unknown{"could not be read"};
  for (const Verdict& verdict : look(builder)) EXPECT_TRUE(verdict.ranks.empty()) << verdict.kind;
}

// A record lost just when the next one of rank 3 was due may be that one.
TEST(Abstain, LossNearTheSuspectsLastMovement) {
  ViewBuilder builder = rank_3_missing(20);
  builder.observer(HealthEvent::Kind::kRecordsLost, 12, 981);
  const auto verdicts = look(builder);
  EXPECT_EQ(verdicts.at(0).kind, "observer.lossy");
  for (const Verdict& verdict : verdicts) EXPECT_TRUE(verdict.ranks.empty()) << verdict.kind;
}

TEST(Abstain, LossElsewhereDoesNotHideTheName) {
  ViewBuilder builder = rank_3_missing(40);
  builder.observer(HealthEvent::Kind::kRecordsLost, 12, 990);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("observer.lossy", "stall.waiting_for_rank"));
  EXPECT_EQ(verdicts[1].ranks, RankSet({3}));
}

TEST(Unobserved, OneOfTheseRanks) {
  ViewBuilder builder = all_joined(20);
  for (const int rank : {4, 5, 6}) builder.forget(rank);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.waiting_for_rank"));
  EXPECT_TRUE(verdicts[0].ranks.empty());
  EXPECT_EQ(verdicts[0].unobserved, RankSet({4, 5, 6}));
  EXPECT_EQ(verdicts[0].confidence, Confidence::kPossible);
  EXPECT_THAT(verdicts[0].summary, HasSubstr("one of 3 unobserved ranks (ranks 4-6)"));
}

TEST(Unobserved, NeverAHangForWhatCannotBeSeen) {
  ViewBuilder builder = all_joined(600);
  builder.forget(7);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.waiting_for_rank"));
  EXPECT_EQ(verdicts[0].severity, Severity::kWarning);
}

TEST(Unobserved, RankSeenOnlyByProcfsCountsAsUnobserved) {
  ViewBuilder builder = all_joined(20);
  RankView bare = builder.rank(7);
  builder.forget(7);
  bare.host_probes_flowing = false;
  bare.threads.clear();
  bare.last_launch_at = Unknown{};
  builder.view().ranks.push_back(bare);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.waiting_for_rank"));
  EXPECT_TRUE(verdicts[0].ranks.empty());
  EXPECT_EQ(verdicts[0].unobserved, RankSet({7}));
}

// Rank 7 is seen, but nothing of it on this communicator: it may never have joined, or wait there
// since before the probes came. Nobody is accused.
TEST(Unobserved, MemberOfWhichNoCollectiveWasSeen) {
  ViewBuilder builder = all_joined(20);
  auto& members = builder.view().comms[0].members;
  members.erase(members.begin() + 7);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.no_progress"));
  EXPECT_TRUE(verdicts[0].ranks.empty());
  EXPECT_THAT(verdicts[0].not_established, ::testing::Contains(HasSubstr("whether rank 7 joined")));
}

// Its creation was seen, so its count is known to be zero: the first collective misses it.
TEST(Stall, RankThatNeverEnteredAnyCollective) {
  ViewBuilder builder = all_joined(8);
  for (int rank = 0; rank < 8; ++rank) builder.enter(0, rank, rank == 7 ? 0 : 1, 992);
  builder.member(0, 7).last_entered_at = JobNs{};
  EXPECT_EQ(look(builder).at(0).ranks, RankSet({7}));
}

// Rank 3 has not joined, but rank 7 is not observed: rank 3 may be stuck in an earlier collective
// for it. It is told as a fact, not accused.
TEST(Unobserved, ObservedSuspectMayItselfWait) {
  ViewBuilder builder = rank_3_missing(20);
  builder.forget(7);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.waiting_for_rank"));
  EXPECT_TRUE(verdicts[0].ranks.empty());
  EXPECT_EQ(verdicts[0].unobserved, RankSet({7}));
  EXPECT_THAT(verdicts[0].summary, HasSubstr("rank 3 or the unobserved rank 7"));
}

// Its last call cannot block on the device: it does not wait for anybody.
TEST(Unobserved, ObservedSuspectThatCannotWait) {
  ViewBuilder builder = rank_3_missing(20);
  builder.forget(7);
  builder.rank(3).threads = {{103, RUNG_CALL_LAUNCH, "cuLaunchKernel", at(980), 'S'}};
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.waiting_for_rank"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({3}));
}

// Two communicators, entered in different order: both wait, neither is named.
TEST(Cycle, NobodyIsNamed) {
  ViewBuilder builder(2, 1000);
  builder.all_moved(900);
  const std::size_t a = builder.comm(0xa, {0, 1}, 5, 900);
  const std::size_t b = builder.comm(0xb, {0, 1}, 5, 900);
  builder.enter(a, 0, 6, 900);
  builder.enter(b, 1, 6, 900);
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.no_progress"));
  EXPECT_TRUE(verdicts[0].ranks.empty());
  EXPECT_EQ(verdicts[0].waiting, RankSet({0, 1}));
  EXPECT_THAT(verdicts[0].summary, HasSubstr("ranks 0-1 wait for each other"));
}

TEST(PointToPoint, ReceiverWaitsForSender) {
  ViewBuilder builder(2, 1000);
  builder.all_moved(990);
  const std::size_t comm = builder.world_comm(0, 0);
  builder.member(comm, 0).peers = {{1, 4, 0, at(990)}};
  builder.member(comm, 1).peers = {{0, 0, 5, at(990)}};
  const auto verdicts = look(builder);
  ASSERT_THAT(kinds(verdicts), ElementsAre("stall.waiting_for_rank"));
  EXPECT_EQ(verdicts[0].ranks, RankSet({0}));
  EXPECT_THAT(verdicts[0].summary, HasSubstr("receive 5 from rank 0"));
  // Counted since different moments: nothing follows.
  builder.member(comm, 0).peers_comparable = false;
  for (const Verdict& verdict : look(builder)) EXPECT_TRUE(verdict.ranks.empty()) << verdict.kind;
}

}  // namespace
}  // namespace rung
