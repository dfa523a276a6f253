#include "sources/host_probes/launch_governor.h"

#include <gtest/gtest.h>

namespace rung {
namespace {

using Action = LaunchGovernor::Action;

UnixNs at(int seconds) { return unix_ns(1'000'000'000'000) + std::chrono::seconds(seconds); }

TEST(LaunchGovernor, LeavesProbesOnWithinTheBudget) {
  LaunchGovernor governor(0.005, true);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(governor.decide(at(i), 0.003, 0.001), Action::kKeep);
  EXPECT_TRUE(governor.on());
  EXPECT_FALSE(governor.thinned());
}

TEST(LaunchGovernor, DutyCyclesSoThatTheBudgetHolds) {
  LaunchGovernor governor(0.005, true);
  EXPECT_EQ(governor.decide(at(0), 0.04, 0.001), Action::kTakeOff);
  EXPECT_DOUBLE_EQ(governor.percent_on(), 10);  // 0.04 / 10 + 0.001 = 0.005
  int on = 0, ticks = 1000;
  for (int i = 1; i <= ticks; ++i) {
    governor.decide(at(i), 0.04, 0.001);
    on += governor.on() ? 1 : 0;
  }
  EXPECT_NEAR(on, ticks / 10, 5);
}

TEST(LaunchGovernor, ComesBackWhenTheLoadIsGone) {
  LaunchGovernor governor(0.005, true);
  governor.decide(at(0), 0.01, 0);
  EXPECT_TRUE(governor.thinned());
  EXPECT_EQ(governor.decide(at(1), 0, 0), Action::kPutOn);
  EXPECT_EQ(governor.decide(at(1), 0.001, 0), Action::kKeep);
  EXPECT_TRUE(governor.thinned()) << "the look is not over";
  EXPECT_EQ(governor.decide(at(2), 0.001, 0), Action::kKeep);
  EXPECT_FALSE(governor.thinned());
  EXPECT_DOUBLE_EQ(governor.percent_on(), 100);
}

TEST(LaunchGovernor, DoesNotFlapJustBelowTheBudget) {
  LaunchGovernor governor(0.005, true);
  governor.decide(at(0), 0.0055, 0);
  governor.decide(at(1), 0, 0);
  EXPECT_EQ(governor.decide(at(2), 0.0049, 0), Action::kTakeOff);
  EXPECT_TRUE(governor.thinned());
}

TEST(LaunchGovernor, OthersOverTheBudgetLeaveLaunchesTheLongestPeriod) {
  LaunchGovernor governor(0.005, true);
  EXPECT_EQ(governor.decide(at(0), 0.001, 0.02), Action::kTakeOff);
  EXPECT_NEAR(governor.percent_on(), 100.0 / 60, 1e-9);
}

TEST(LaunchGovernor, NothingToTakeOffWithoutLaunches) {
  LaunchGovernor governor(0.005, true);
  EXPECT_EQ(governor.decide(at(0), 0, 0.02), Action::kKeep);
}

TEST(LaunchGovernor, WithoutCheapDetachTheyAreOffForGood) {
  LaunchGovernor governor(0.005, false);
  EXPECT_EQ(governor.decide(at(0), 0.04, 0), Action::kTakeOff);
  EXPECT_EQ(governor.decide(at(1000), 0, 0), Action::kKeep);
  EXPECT_FALSE(governor.on());
  EXPECT_DOUBLE_EQ(governor.percent_on(), 0);
}

}  // namespace
}  // namespace rung
