#include "sources/host_probes/launch_governor.h"

#include <gtest/gtest.h>

namespace rung {
namespace {

using Action = LaunchGovernor::Action;

UnixNs at(double seconds) {
  return unix_ns(1'000'000'000'000 + static_cast<std::int64_t>(seconds * 1e9));
}

TEST(LaunchGovernor, LeavesProbesOnWithinTheBudget) {
  LaunchGovernor governor(0.005, true);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(governor.decide(at(i), 0.003, 0.001), Action::kKeep);
  EXPECT_TRUE(governor.on());
  EXPECT_FALSE(governor.thinned());
}

TEST(LaunchGovernor, DutyCyclesSoThatTheBudgetHolds) {
  LaunchGovernor governor(0.005, true);
  EXPECT_EQ(governor.decide(at(0), 0.08, 0.001), Action::kTakeOff);
  EXPECT_DOUBLE_EQ(governor.percent_on(), 5);  // 0.08 * 5 % + 0.001 = 0.005
  int on = 0;
  const int quarters = 4000;
  for (int i = 1; i <= quarters; ++i) {
    governor.decide(at(i * 0.25), 0.08, 0.001);
    on += governor.on() ? 1 : 0;
  }
  EXPECT_NEAR(on, quarters / 20, quarters / 100);
}

TEST(LaunchGovernor, SilenceEndsAnOffPeriodAndIsLookedAtForASecond) {
  LaunchGovernor governor(0.005, true);
  governor.decide(at(0), 1.0, 0);
  EXPECT_EQ(governor.decide(at(1), 1.0, 0), Action::kKeep) << "off for long";
  governor.look_soon(at(1));
  EXPECT_EQ(governor.decide(at(1), 1.0, 0), Action::kPutOn);
  EXPECT_EQ(governor.decide(at(1.5), 1.0, 0), Action::kKeep);
  EXPECT_EQ(governor.decide(at(2), 1.0, 0), Action::kKeep);
  EXPECT_EQ(governor.decide(at(2.2), 1.0, 0), Action::kTakeOff) << "others are busy";
}

TEST(LaunchGovernor, ComesBackWhenTheLoadIsGone) {
  LaunchGovernor governor(0.005, true);
  governor.decide(at(0), 0.01, 0);
  EXPECT_TRUE(governor.thinned());
  EXPECT_EQ(governor.decide(at(2), 0, 0), Action::kPutOn);
  EXPECT_EQ(governor.decide(at(2.1), 0.001, 0), Action::kKeep);
  EXPECT_TRUE(governor.thinned()) << "the look is not over";
  EXPECT_EQ(governor.decide(at(2.25), 0.001, 0), Action::kKeep);
  EXPECT_FALSE(governor.thinned());
  EXPECT_DOUBLE_EQ(governor.percent_on(), 100);
}

TEST(LaunchGovernor, DoesNotFlapJustBelowTheBudget) {
  LaunchGovernor governor(0.005, true);
  governor.decide(at(0), 0.0055, 0);
  governor.decide(at(2), 0, 0);
  EXPECT_EQ(governor.decide(at(3), 0.0049, 0), Action::kTakeOff);
  EXPECT_TRUE(governor.thinned());
}

TEST(LaunchGovernor, OthersOverTheBudgetLeaveLaunchesTheLongestPeriod) {
  LaunchGovernor governor(0.005, true);
  EXPECT_EQ(governor.decide(at(0), 0.001, 0.02), Action::kTakeOff);
  EXPECT_NEAR(governor.percent_on(), 25.0 / 60, 1e-9);
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
