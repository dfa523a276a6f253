// The resolver: order, suppression, confidence, and what it remembers over time. Also health and
// the observer's own trouble.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnose/diagnose.h"
#include "diagnose/rules.h"
#include "view_builder.h"

namespace rung {
namespace {

using testing::at;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kinds;
using testing::ViewBuilder;

// Rank 1 of 4 has not joined since 1000 - age; `now` is 1000.
ViewBuilder missing(double now, double since) {
  ViewBuilder builder(4, now);
  builder.all_moved(since);
  builder.world_comm(101, since);
  builder.enter(0, 1, 100, since - 0.2);
  return builder;
}

Fact fact_of(EvidenceClass evidence, const char* source) {
  Fact out;
  out.source = source;
  out.evidence = evidence;
  return out;
}

TEST(Confidence, FollowsTheEvidence) {
  Finding finding;
  finding.ranks = {1};
  finding.facts = {fact_of(EvidenceClass::kKernelHost, "host_probes")};
  EXPECT_EQ(confidence_of(finding), Confidence::kPossible);  // host order alone
  finding.facts = {fact_of(EvidenceClass::kKernelHost, "procfs")};
  EXPECT_EQ(confidence_of(finding), Confidence::kLikely);
  finding.facts.push_back(fact_of(EvidenceClass::kGpu, "nvml"));
  EXPECT_EQ(confidence_of(finding), Confidence::kEstablished);
  finding.unobserved = {2};
  EXPECT_EQ(confidence_of(finding), Confidence::kLikely);
  finding.ranks = {};
  EXPECT_EQ(confidence_of(finding), Confidence::kPossible);
  finding.positive_sign = true;
  EXPECT_EQ(confidence_of(finding), Confidence::kEstablished);
}

TEST(Resolver, FromHealthThroughStallToHangAndBack) {
  Resolver resolver;
  ViewBuilder builder = missing(1002, 1000);
  EXPECT_THAT(kinds(diagnose(builder.view(), resolver)), ElementsAre("healthy.communicating"));
  std::optional<JobNs> stall;
  std::optional<JobNs> hang;
  for (int tick = 3; tick <= 70; ++tick) {
    builder = missing(1000 + tick, 1000);
    const auto verdicts = diagnose(builder.view(), resolver);
    ASSERT_EQ(verdicts.size(), 1U) << tick;
    if (tick >= 5) {
      EXPECT_EQ(verdicts[0].ranks, RankSet({1}));
      EXPECT_EQ(verdicts[0].since, at(1000));
    }
    auto& first = verdicts[0].kind == kind::kStallWaitingForRank ? stall : hang;
    if (tick < 5) continue;
    if (!first) first = verdicts[0].detected;
    EXPECT_EQ(verdicts[0].detected, *first) << tick;  // stable while it stands
  }
  EXPECT_EQ(stall, at(1005));  // the name is out within 10 s
  EXPECT_EQ(hang, at(1060));
  // It joins: at once healthy again.
  builder = ViewBuilder(4, 1071);
  builder.all_moved(1070.9);
  builder.world_comm(130, 1070.9);
  EXPECT_THAT(kinds(diagnose(builder.view(), resolver)), ElementsAre("healthy.communicating"));
}

// One tick in which a sample of the waiting peers is missing must not make the verdict flicker.
TEST(Resolver, ShortGapDoesNotFlicker) {
  Resolver resolver;
  ViewBuilder builder = missing(1010, 1000);
  const auto before = diagnose(builder.view(), resolver);
  ASSERT_THAT(kinds(before), ElementsAre("stall.waiting_for_rank"));
  builder = missing(1011, 1000);
  for (RankView& rank : builder.view().ranks) rank.host_probes_flowing = false;
  const auto held = diagnose(builder.view(), resolver);
  ASSERT_THAT(kinds(held), ElementsAre("stall.waiting_for_rank"));
  builder = missing(1012, 1000);
  const auto after = diagnose(builder.view(), resolver);
  EXPECT_EQ(after.at(0).detected, before.at(0).detected);
  // But not for ever.
  for (const double now : {1013.0, 1014.0, 1015.0}) {
    builder = missing(now, 1000);
    for (RankView& rank : builder.view().ranks) rank.host_probes_flowing = false;
    diagnose(builder.view(), resolver);
  }
  EXPECT_THAT(kinds(diagnose(builder.view(), resolver)),
              ElementsAre("unknown.insufficient_evidence"));
}

TEST(Resolver, CheckpointWritesInBurstsAndEnds) {
  Resolver resolver;
  ViewBuilder builder = missing(1010, 1000);
  builder.rank(1).activity.written_bytes = std::uint64_t{1} << 30;
  EXPECT_THAT(kinds(diagnose(builder.view(), resolver)), ElementsAre("pause.checkpoint"));
  builder = missing(1012, 1000);  // waits for the disk: nothing written just now
  EXPECT_THAT(kinds(diagnose(builder.view(), resolver)), ElementsAre("pause.checkpoint"));
  builder = missing(1022, 1000);  // rested for too long
  EXPECT_THAT(kinds(diagnose(builder.view(), resolver)), ElementsAre("stall.waiting_for_rank"));
}

TEST(Resolver, PauseEndsWhenTheJobMoves) {
  Resolver resolver;
  ViewBuilder builder = missing(1010, 1000);
  builder.rank(1).activity.written_bytes = std::uint64_t{1} << 30;
  EXPECT_THAT(kinds(diagnose(builder.view(), resolver)), ElementsAre("pause.checkpoint"));
  builder = ViewBuilder(4, 1011);
  builder.all_moved(1010.9);
  builder.world_comm(102, 1010.9);
  EXPECT_THAT(kinds(diagnose(builder.view(), resolver)), ElementsAre("healthy.communicating"));
}

TEST(Resolver, ANewAttemptForgetsTheOld) {
  Resolver resolver;
  ViewBuilder builder = missing(1010, 1000);
  diagnose(builder.view(), resolver);
  builder = missing(1020, 1010);
  builder.view().attempt = 1;
  EXPECT_EQ(diagnose(builder.view(), resolver).at(0).detected, at(1020));
}

TEST(Resolver, ManyFactsAreCutAndCounted) {
  Finding finding;
  finding.kind = kind::kStallNoProgress;
  finding.facts.resize(40);
  Resolver resolver;
  ViewBuilder builder(1);
  const auto verdicts = resolver.resolve(builder.view(), {finding});
  EXPECT_EQ(verdicts.at(0).evidence.size(), Resolver::kFacts);
  EXPECT_EQ(verdicts.at(0).not_established.at(0), "8 more facts are not shown");
}

TEST(Observer, ComesFirst) {
  Resolver resolver;
  ViewBuilder builder = missing(1010, 1000);
  builder.rank(2).coverage[0].stage = Stage::kStale;
  builder.observer(HealthEvent::Kind::kVendorCallBlocked, 45, 965);
  builder.observer(HealthEvent::Kind::kRecordsLost, 3, 960);
  const auto verdicts = diagnose(builder.view(), resolver);
  ASSERT_GE(verdicts.size(), 4U);
  EXPECT_EQ(verdicts[0].kind, kind::kObserverDeliveryStopped);
  EXPECT_EQ(verdicts[0].ranks, RankSet({2}));
  EXPECT_EQ(verdicts[1].kind, kind::kObserverLossy);
  EXPECT_EQ(verdicts[2].kind, kind::kObserverVendorCallBlocked);
  EXPECT_EQ(verdicts[2].summary, "vendor call blocked 45 s: collectives ring");
}

TEST(Observer, OldAndEndedTroubleIsNone) {
  ViewBuilder builder = missing(1010, 1000);
  builder.observer(HealthEvent::Kind::kVendorCallBlocked, 45, 965, false);
  builder.observer(HealthEvent::Kind::kRecordsLost, 3, 900);
  builder.observer(HealthEvent::Kind::kTickLate, 900, 1009);
  EXPECT_THAT(judge_observer_vendor_call_blocked(builder.view()), IsEmpty());
  EXPECT_THAT(judge_observer_lossy(builder.view()), IsEmpty());
  EXPECT_THAT(judge_observer_delivery_stopped(builder.view()), IsEmpty());
  builder.observer(HealthEvent::Kind::kTickLate, 12000, 1009);
  EXPECT_EQ(judge_observer_delivery_stopped(builder.view()).size(), 1U);
}

TEST(Observer, ThinningAloneIsNoNews) {
  Resolver resolver;
  ViewBuilder builder(2, 1000);
  builder.all_moved(999.9);
  builder.world_comm(10, 999.9);
  builder.observer(HealthEvent::Kind::kProbesThinned, 10, 900);
  EXPECT_THAT(kinds(diagnose(builder.view(), resolver)), ElementsAre("healthy.communicating"));
}

TEST(Healthy, LaunchesWithoutCollectivesAreComputing) {
  Resolver resolver;
  ViewBuilder builder(2, 1000);
  builder.all_moved(999);
  builder.gpus_busy();
  const auto verdicts = diagnose(builder.view(), resolver);
  ASSERT_THAT(kinds(verdicts), ElementsAre("healthy.computing"));
  EXPECT_EQ(verdicts[0].confidence, Confidence::kEstablished);
}

TEST(Healthy, UtilizationIsNoProgress) {
  Resolver resolver;
  ViewBuilder builder(2, 1000);
  builder.gpus_busy();
  for (RankView& rank : builder.view().ranks) {
    rank.threads.clear();
    rank.last_launch_at = Unknown{};
    rank.host_probes_flowing = false;
  }
  EXPECT_THAT(kinds(diagnose(builder.view(), resolver)),
              ElementsAre("unknown.insufficient_evidence"));
}

TEST(Unknown, AnEmptyJobHasNoVerdict) {
  Resolver resolver;
  ViewBuilder builder(0);
  EXPECT_THAT(diagnose(builder.view(), resolver), IsEmpty());
}

}  // namespace
}  // namespace rung
