#include "job/job_table.h"

#include <gtest/gtest.h>

namespace rung {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
UnixNs at(double seconds) {
  return unix_ns(static_cast<std::int64_t>(seconds * 1e9) + 1'000'000 * kSecond);
}
ProcessKey process(std::int32_t pid) { return {7, pid, 100}; }

Observation of(std::int32_t pid, double seconds, Evidence what) {
  return {Origin{Source::kHostProbes, Rung::kHost, process(pid), at(seconds), 0}, std::move(what)};
}

ProcessIdentity rank_of(std::int32_t rank, std::int32_t world) {
  ProcessIdentity identity;
  identity.job = JobId{"run:1-1"};
  identity.rank = RankId{rank};
  identity.world_size = world;
  identity.uid = 1000;
  return identity;
}

CollectiveBatch batch(std::uint64_t hash, std::int32_t rank, std::int32_t size,
                      std::optional<std::uint64_t> first, std::vector<double> times) {
  CollectiveBatch out;
  out.comm = {0x1000 + hash, CommId{hash, CommId::Source::kMemory}, size, rank};
  out.first_index = first;
  for (const double t : times) {
    out.entries.push_back({at(t), CollectiveSignature{RUNG_OP_ALL_REDUCE, 7, 0, -1, 1024}});
  }
  return out;
}

JobTable two_ranks() {
  JobTable table;
  table.absorb(of(10, 0, rank_of(0, 2)));
  table.absorb(of(11, 0, rank_of(1, 2)));
  return table;
}

TEST(JobTable, BuildsOneViewPerJobWithRanksInOrder) {
  JobTable table = two_ranks();
  const auto views = table.views(at(1));
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].job.text, "run:1-1");
  ASSERT_EQ(views[0].ranks.size(), 2u);
  EXPECT_EQ(views[0].ranks[1].process.pid, 11);
  EXPECT_EQ(views[0].world_size.maybe(), 2);
  EXPECT_TRUE(views[0].unobserved().empty());
  EXPECT_FALSE(views[0].ended);
  EXPECT_EQ(table.owner(JobId{"run:1-1"}), 1000u);
}

TEST(JobTable, NothingSeenIsUnknownNotZero) {
  JobTable table = two_ranks();
  const JobView view = table.views(at(1)).front();
  EXPECT_FALSE(view.ranks[0].state.maybe());
  EXPECT_FALSE(view.ranks[0].last_call_at.maybe());
  EXPECT_FALSE(view.ranks[0].activity.cpu_share.maybe());
  EXPECT_FALSE(view.progress.last_at.maybe());
  EXPECT_FALSE(view.progress.per_second.maybe());
  EXPECT_FALSE(view.baseline.gap_p999.maybe());
  EXPECT_FALSE(view.ranks[0].host_probes_flowing);
}

TEST(JobTable, JoinsCommunicatorsByIdentityAndCountsAbsolutely) {
  JobTable table = two_ranks();
  table.absorb(of(10, 1, batch(5, 0, 2, 40, {0.8, 0.9})));
  table.absorb(of(11, 1, batch(5, 1, 2, 40, {0.8})));
  const JobView view = table.views(at(1)).front();
  ASSERT_EQ(view.comms.size(), 1u);
  const CommView& comm = view.comms[0];
  EXPECT_EQ(comm.size, 2);
  EXPECT_TRUE(comm.comm_ranks_are_job_ranks);
  EXPECT_EQ(comm.members[0].entered.maybe(), 42u);
  EXPECT_EQ(comm.members[1].entered.maybe(), 41u);
  EXPECT_EQ(comm.members[0].tail.back().index, 41u);
  EXPECT_EQ(view.progress.index.maybe(), 41u);
  EXPECT_EQ(view.progress.source, JobProgress::Source::kCollectives);
  EXPECT_EQ(view.progress.last_at.maybe(), job_ns(ns_of(at(0.9))));
}

TEST(JobTable, UnidentifiedCommunicatorIsSaidButNotCompared) {
  JobTable table = two_ranks();
  CollectiveBatch unknown = batch(5, 0, 2, std::nullopt, {0.5});
  unknown.comm.id = CommId{};
  table.absorb(of(10, 1, unknown));
  const JobView view = table.views(at(1)).front();
  EXPECT_TRUE(view.comms.empty());
  EXPECT_TRUE(view.unidentified_comms);
  EXPECT_TRUE(view.progress.last_at.maybe()) << "a collective is progress whatever its identity";
}

TEST(JobTable, BatchWithoutIndexMakesCountsUnknown) {
  JobTable table = two_ranks();
  table.absorb(of(10, 1, batch(5, 0, 2, 40, {0.5})));
  table.absorb(of(10, 2, batch(5, 0, 2, std::nullopt, {1.5})));
  const CommView comm = table.views(at(2)).front().comms.front();
  EXPECT_FALSE(comm.members[0].entered.maybe());
  EXPECT_TRUE(comm.members[0].tail.empty());
}

TEST(JobTable, GapInIndicesDropsTheOlderTail) {
  JobTable table = two_ranks();
  table.absorb(of(10, 1, batch(5, 0, 2, 40, {0.5})));
  table.absorb(of(10, 2, batch(5, 0, 2, 90, {1.5})));
  const MemberView member = table.views(at(2)).front().comms.front().members[0];
  ASSERT_EQ(member.tail.size(), 1u);
  EXPECT_EQ(member.tail[0].index, 90u);
}

TEST(JobTable, AnotherCommunicatorAtTheSameAddressStartsAnew) {
  JobTable table = two_ranks();
  table.absorb(of(10, 1, batch(5, 0, 2, 40, {0.5})));
  CollectiveBatch next = batch(6, 0, 2, 0, {1.5});
  next.comm.pointer = 0x1000 + 5;
  table.absorb(of(10, 2, next));
  const JobView view = table.views(at(2)).front();
  ASSERT_EQ(view.comms.size(), 1u);
  EXPECT_EQ(view.comms[0].id.hash, 6u);
  EXPECT_EQ(view.comms[0].members[0].entered.maybe(), 1u);
}

TEST(JobTable, PendingInitEndsWithTheNextCollective) {
  JobTable table = two_ranks();
  CommEvent init;
  init.comm = {0, CommId{77, CommId::Source::kUniqueId}, 2, 0};
  table.absorb(of(10, 1, init));
  JobView view = table.views(at(1)).front();
  ASSERT_EQ(view.comms.size(), 1u);
  EXPECT_TRUE(view.comms[0].members[0].initializing);
  table.absorb(of(10, 3, batch(5, 0, 2, 0, {2.5})));
  view = table.views(at(3)).front();
  ASSERT_EQ(view.comms.size(), 1u);
  EXPECT_EQ(view.comms[0].id.hash, 5u);
}

TEST(JobTable, CommunicatorThatWasMadeCountsFromZero) {
  JobTable table = two_ranks();
  const CommId made{77, CommId::Source::kUniqueId};
  for (const std::int32_t rank : {0, 1}) {
    CommEvent done;
    done.what = CommEvent::What::kInitDone;
    done.comm = {0x1000 + 5, made, 2, rank};
    table.absorb(of(10 + rank, 1, done));
  }
  JobView view = table.views(at(1)).front();
  ASSERT_EQ(view.comms.size(), 1u);
  EXPECT_EQ(view.comms[0].members[1].entered.maybe(), 0u);
  // One rank goes on, and NCCL's own hash replaces the unique id: still one communicator.
  table.absorb(of(10, 2, batch(5, 0, 2, 0, {1.5})));
  view = table.views(at(2)).front();
  ASSERT_EQ(view.comms.size(), 1u);
  EXPECT_EQ(view.comms[0].id.hash, 5u);
  ASSERT_EQ(view.comms[0].members.size(), 2u);
  EXPECT_EQ(view.comms[0].members[0].entered.maybe(), 1u);
  EXPECT_EQ(view.comms[0].members[1].entered.maybe(), 0u);
}

TEST(JobTable, LookWithoutLaunchesMakesThinnedProbesEnough) {
  JobTable table = two_ranks();
  const auto stats = [&](double t, std::uint64_t launches, std::optional<UnixNs> seen_since) {
    HostCallStats out;
    out.classes.push_back({RUNG_CALL_LAUNCH, launches, 0});
    out.launches_thinned = true;
    out.launches_seen_since = seen_since;
    table.absorb(of(10, t, out));
  };
  stats(1, 10, std::nullopt);
  EXPECT_TRUE(table.views(at(1)).front().ranks[0].launches_thinned);
  stats(3, 10, at(2.5));
  EXPECT_TRUE(table.views(at(3)).front().ranks[0].launches_thinned) << "the look was too short";
  stats(4, 10, at(2.5));
  EXPECT_FALSE(table.views(at(4)).front().ranks[0].launches_thinned);
  stats(5, 20, at(2.5));
  EXPECT_TRUE(table.views(at(5)).front().ranks[0].launches_thinned) << "it launches again";
}

TEST(JobTable, DestroyedCommunicatorsLeaveTheView) {
  JobTable table = two_ranks();
  table.absorb(of(10, 1, batch(5, 0, 2, 40, {0.5})));
  CommEvent gone;
  gone.what = CommEvent::What::kDestroyed;
  gone.comm.pointer = 0x1000 + 5;
  table.absorb(of(10, 2, gone));
  EXPECT_TRUE(table.views(at(2)).front().comms.empty());
}

TEST(JobTable, ActivityIsTheGrowthOverItsWindow) {
  JobTable table = two_ranks();
  ProcessSample sample;
  sample.written_bytes = 1000;
  table.absorb(of(10, 0, sample));
  sample.cpu_ns = 5 * kSecond;
  sample.written_bytes = 4000;
  table.absorb(of(10, 10, sample));
  const Activity activity = table.views(at(10)).front().ranks[0].activity;
  EXPECT_DOUBLE_EQ(*activity.cpu_share.maybe(), 0.5);
  EXPECT_EQ(activity.written_bytes.maybe(), 3000u);
  EXPECT_FALSE(activity.read_bytes.maybe()) << "unknown without the right to look";
  EXPECT_FALSE(activity.cpu_outside_cuda_share.maybe());
}

TEST(JobTable, CpuPlaceSplitsTheCpuShareAndGrowsOld) {
  JobTable table = two_ranks();
  ProcessSample sample;
  table.absorb(of(10, 0, sample));
  sample.cpu_ns = 10 * kSecond;
  table.absorb(of(10, 10, sample));
  table.absorb(of(10, 10, CpuPlace{50, 40, std::chrono::seconds(1)}));
  EXPECT_NEAR(*table.views(at(11)).front().ranks[0].activity.cpu_outside_cuda_share.maybe(), 0.2,
              1e-9);
  EXPECT_FALSE(table.views(at(60)).front().ranks[0].activity.cpu_outside_cuda_share.maybe());
}

TEST(JobTable, LaterWordWithACodeCompletesAnExit) {
  JobTable table = two_ranks();
  table.absorb(of(10, 1, ProcessExit{}));
  table.absorb(of(10, 2, ProcessExit{std::nullopt, 9}));
  table.absorb(of(10, 3, ProcessExit{}));
  const RankView rank = table.views(at(3)).front().ranks[0];
  ASSERT_TRUE(rank.exit);
  EXPECT_EQ(rank.exit->signal, 9);
  EXPECT_EQ(rank.exit->at, job_ns(ns_of(at(1))));
}

TEST(JobTable, EndedJobAnswersForAnHour) {
  JobTable table = two_ranks();
  table.absorb(of(10, 1, ProcessExit{0, std::nullopt}));
  table.absorb(of(11, 1, ProcessExit{0, std::nullopt}));
  table.age(at(2));
  EXPECT_TRUE(table.views(at(2)).front().ended);
  table.age(at(3500));
  EXPECT_EQ(table.views(at(3500)).size(), 1u);
  table.age(at(3700));
  EXPECT_TRUE(table.views(at(3700)).empty());
}

TEST(JobTable, RestartedRanksAreTheNextAttempt) {
  JobTable table = two_ranks();
  table.absorb(of(10, 1, ProcessExit{1, std::nullopt}));
  table.absorb(of(11, 1, ProcessExit{1, std::nullopt}));
  table.absorb(of(20, 5, rank_of(0, 2)));
  table.age(at(5));
  const JobView view = table.views(at(5)).front();
  EXPECT_EQ(view.attempt, 1);
  ASSERT_EQ(view.ranks.size(), 1u);
  EXPECT_EQ(view.ranks[0].process.pid, 20);
  EXPECT_EQ(view.unobserved().text(), "1");
}

TEST(JobTable, ProcessWithoutRankIsInNoView) {
  JobTable table = two_ranks();
  ProcessIdentity forged = rank_of(0, 2);
  forged.rank.reset();
  forged.conflict = "rank 0 is held by pid 10";
  table.absorb(of(12, 1, forged));
  EXPECT_EQ(table.views(at(1)).front().ranks.size(), 2u);
}

TEST(JobTable, BaselineNeedsTwentyGaps) {
  JobTable table = two_ranks();
  for (int i = 0; i <= 19; ++i) {
    table.absorb(of(10, i, batch(5, 0, 2, static_cast<std::uint64_t>(i), {i + 0.5})));
  }
  EXPECT_FALSE(table.views(at(20)).front().baseline.gap_p999.maybe());
  table.absorb(of(10, 20, batch(5, 0, 2, 20, {20.5})));
  const auto gap = table.views(at(21)).front().baseline.gap_p999.maybe();
  ASSERT_TRUE(gap);
  EXPECT_GE(*gap, std::chrono::seconds(1));
  EXPECT_LE(*gap, std::chrono::seconds(2)) << "a power of two above the gap";
}

TEST(JobTable, VendorCallStaysBlockedUntilItReturns) {
  JobTable table = two_ranks();
  const auto event = [&](double t, HealthEvent::Kind kind) {
    Observation out = of(0, t, HealthEvent{kind, 6, "GPU-0"});
    out.from.process = ProcessKey{};
    table.absorb(out);
  };
  event(1, HealthEvent::Kind::kVendorCallBlocked);
  table.age(at(500));
  ASSERT_EQ(table.views(at(500)).front().observer.size(), 1u);
  EXPECT_TRUE(table.views(at(500)).front().observer[0].ongoing);
  event(501, HealthEvent::Kind::kVendorCallReturned);
  table.age(at(502));
  EXPECT_TRUE(table.views(at(502)).front().observer.empty());
}

TEST(JobTable, SnapshotRebuildsTheSameView) {
  JobTable table = two_ranks();
  table.absorb(of(10, 1, batch(5, 0, 2, 40, {0.5, 0.7})));
  table.absorb(of(11, 1, batch(5, 1, 2, 40, {0.6})));
  HostCallStats stats;
  stats.classes.push_back({RUNG_CALL_LAUNCH, 30, 0});
  table.absorb(of(10, 1, stats));
  table.absorb(
      of(10, 1, InFlightCall{10, RUNG_CALL_SYNC, "cuStreamSynchronize", at(0.9), 55, 'R'}));
  table.absorb(of(11, 2, ProcessExit{std::nullopt, 9}));
  JobTable again;
  for (const Observation& observation : table.snapshot(at(2), std::nullopt))
    again.absorb(observation);
  const JobView a = table.views(at(2)).front();
  const JobView b = again.views(at(2)).front();
  ASSERT_EQ(b.comms.size(), 1u);
  EXPECT_EQ(a.comms[0].members[0].entered.maybe(), b.comms[0].members[0].entered.maybe());
  EXPECT_EQ(a.comms[0].members[0].tail.size(), b.comms[0].members[0].tail.size());
  EXPECT_EQ(a.ranks[0].threads[0].function, b.ranks[0].threads[0].function);
  EXPECT_EQ(a.ranks[0].last_launch_at.maybe(), b.ranks[0].last_launch_at.maybe());
  EXPECT_EQ(a.ranks[1].exit->signal, b.ranks[1].exit->signal);
  EXPECT_EQ(a.progress.last_at.maybe(), b.progress.last_at.maybe());
}

TEST(JobTable, SnapshotOfOneJobHoldsNothingOfAnother) {
  JobTable table = two_ranks();
  ProcessIdentity other = rank_of(0, 1);
  other.job = JobId{"run:2-2"};
  table.absorb(of(30, 0, other));
  for (const Observation& observation : table.snapshot(at(1), JobId{"run:2-2"})) {
    EXPECT_EQ(observation.from.process.pid, 30);
  }
  EXPECT_EQ(table.snapshot(at(1), JobId{"run:2-2"}).size(), 1u);
}

}  // namespace
}  // namespace rung
