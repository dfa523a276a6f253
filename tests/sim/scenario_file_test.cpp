// Scenario files: what is read, what is refused, and that those we ship are complete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "rung_sim/runner.h"

namespace rung::sim {
namespace {

using testing::HasSubstr;

constexpr const char* kMinimal =
    "name = \"x\"\nworld_size = 2\n[label]\nexpected = [\"healthy\"]\n";

std::string error_of(const std::string& text) {
  const auto scenario = parse_scenario(text, "x.toml");
  return scenario ? "" : scenario.error().message;
}

TEST(ScenarioFile, TheShippedOnesAreCompleteAndKeepTheirMeaning) {
  const auto scenarios = list_scenarios(RUNG_SIM_TEST_HOME);
  ASSERT_TRUE(scenarios) << scenarios.error().message;
  std::set<std::string> names;
  for (const Scenario& scenario : *scenarios) {
    SCOPED_TRACE(scenario.name);
    EXPECT_TRUE(names.insert(scenario.name).second);
    EXPECT_FALSE(scenario.description.empty());
    EXPECT_FALSE(scenario.label.expected.empty() && scenario.label.forbidden.empty());
    const auto by_name = load_scenario(scenario.name, RUNG_SIM_TEST_HOME);
    ASSERT_TRUE(by_name) << by_name.error().message;
    EXPECT_EQ(by_name->name, scenario.name) << "the file has another name than the scenario";
    const auto again = parse_scenario(to_toml(scenario), "again");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(to_toml(*again), to_toml(scenario));
  }
  for (const char* name :
       {"healthy", "sleep_before_collective", "collective_size", "skip_collective", "rank_killed",
        "rank_sigstop", "none_completes", "checkpoint_pause", "slow_rank", "init_missing_rank",
        "tp_pp_dp_sleeps", "tp_pp_dp_stopped", "waits_spin"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(ScenarioFile, EveryFieldIsRead) {
  const auto scenario = parse_scenario(R"(
name = "all"
description = "d"
world_size = 8
step_ms = 12.5
steps = 7
waits = "spin"
tear_down = true
layout = { tensor = 2, pipeline = 2, data = 2 }
[[faults]]
kind = "slow"
rank = 7
at_step = 3
for_s = 1.5
factor = 2
[[faults]]
kind = "stop"
rank = 1
at_s = 4
[label]
expected = ["a|b", "c"]
ranks = [7, 1]
forbidden = ["d"]
)",
                                       "all.toml");
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->world_size, 8);
  EXPECT_EQ(scenario->step_ms, 12.5);
  EXPECT_EQ(scenario->steps, 7);
  EXPECT_TRUE(scenario->spin);
  EXPECT_TRUE(scenario->tear_down);
  EXPECT_EQ(scenario->layout.pipeline, 2);
  ASSERT_EQ(scenario->faults.size(), 2u);
  EXPECT_EQ(scenario->faults[0].kind, Fault::Kind::kSlow);
  EXPECT_EQ(scenario->faults[0].at_step, 3);
  EXPECT_EQ(scenario->faults[0].for_s, 1.5);
  EXPECT_EQ(scenario->faults[0].factor, 2);
  EXPECT_EQ(scenario->faults[1].at_s, 4);
  EXPECT_EQ(scenario->faults[1].for_s, std::nullopt);
  const std::vector<std::vector<std::string>> expected{{"a", "b"}, {"c"}};
  EXPECT_EQ(scenario->label.expected, expected);
  EXPECT_EQ(scenario->label.ranks, (std::vector<std::int32_t>{7, 1}));
  EXPECT_EQ(scenario->label.forbidden, std::vector<std::string>{"d"});
}

TEST(ScenarioFile, MistakesAreNamed) {
  EXPECT_EQ(error_of(kMinimal), "");
  EXPECT_THAT(error_of("[ =x]"), HasSubstr("x.toml line 1"));
  EXPECT_THAT(error_of("\n# \xef\xb2\xbf"), HasSubstr("x.toml line 2: not ASCII"));
  EXPECT_THAT(error_of("name = "), HasSubstr("x.toml line 1"));
  EXPECT_THAT(error_of(std::string("nmae = 1\n") + kMinimal), HasSubstr("unknown key nmae"));
  EXPECT_THAT(error_of(std::string("steps = \"3\"\n") + kMinimal), HasSubstr("wrong type"));
  EXPECT_THAT(error_of(std::string("waits = \"nap\"\n") + kMinimal), HasSubstr("sleep or spin"));
  EXPECT_THAT(error_of("name = \"x\"\n"), HasSubstr("[label] is missing"));
  EXPECT_THAT(error_of("[label]\n"), HasSubstr("name is missing"));
  const std::string fault = std::string(kMinimal) + "[[faults]]\n";
  EXPECT_THAT(error_of(fault + "kind = \"boom\"\nrank = 0\nat_s = 1\n"), HasSubstr("boom"));
  EXPECT_THAT(error_of(fault + "kind = \"kill\"\nrank = 2\nat_s = 1\n"), HasSubstr("outside"));
  EXPECT_THAT(error_of(fault + "kind = \"kill\"\nrank = 1\n"), HasSubstr("at_step or at_s"));
  EXPECT_THAT(error_of(fault + "kind = \"init_missing\"\nrank = 1\nat_s = 1\n"),
              HasSubstr("takes no time"));
  EXPECT_THAT(error_of(std::string("layout = { tensor = 3 }\n") + kMinimal),
              HasSubstr("world_size"));
}

TEST(ScenarioFile, UnknownNamesAndFoldersAreNotFound) {
  const auto scenario = load_scenario("no_such_scenario", RUNG_SIM_TEST_HOME);
  ASSERT_FALSE(scenario);
  EXPECT_EQ(scenario.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(scenario.error().hint.empty());
}

TEST(ScenarioOverrides, ChangeWhatTheyName) {
  auto scenario = load_scenario("rank_sigstop", RUNG_SIM_TEST_HOME);
  ASSERT_TRUE(scenario);
  const auto changed = apply(
      *scenario,
      {.world_size = 8, .duration_s = 3, .step_ms = 100, .fault_at_step = 5, .fault_for_s = 2});
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(changed->world_size, 8);
  EXPECT_EQ(changed->layout.data, 8);
  EXPECT_EQ(changed->steps, 30);
  EXPECT_EQ(changed->faults[0].at_step, 5);
  EXPECT_EQ(changed->faults[0].at_s, std::nullopt);
  EXPECT_EQ(changed->faults[0].for_s, 2);
  EXPECT_FALSE(apply(*scenario, {.world_size = 2})) << "the fault's rank is outside";
  EXPECT_FALSE(apply(*scenario, {.world_size = 100000}));
  auto fixed = load_scenario("tp_pp_dp_stopped", RUNG_SIM_TEST_HOME);
  ASSERT_TRUE(fixed);
  EXPECT_FALSE(apply(*fixed, {.world_size = 4}));
}

}  // namespace
}  // namespace rung::sim
