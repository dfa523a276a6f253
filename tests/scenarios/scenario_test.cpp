// Every labelled scenario, run for real: simulated ranks, the real agent with its probes, and what
// `why` says. The label alone decides what is right.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support/json.h"
#include "support/live_agent.h"

namespace rung {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// What was reported at one moment: kind -> accused ranks.
struct Report {
  std::string kind;
  std::set<int> ranks;
};

std::vector<Report> reports(const std::string& why) {
  std::vector<Report> out;
  const auto kinds =
      test::json_rows(why, "SELECT json_extract(value, '$.kind') FROM json_each(?1, '$.verdicts')");
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    Report report{kinds[i], {}};
    for (const std::string& rank :
         test::json_rows(why, "SELECT value FROM json_each(?1, '$.verdicts[" + std::to_string(i) +
                                  "].ranks')")) {
      report.ranks.insert(std::stoi(rank));
    }
    out.push_back(report);
  }
  return out;
}

std::string summaries(const std::string& why) {
  std::string out;
  for (const std::string& line : test::json_rows(
           why,
           "SELECT json_extract(value, '$.kind') || ': ' || json_extract(value, '$.summary') "
           "FROM json_each(?1, '$.verdicts')")) {
    out += line + "\n";
  }
  return out;
}

bool is(const std::string& kind, const std::string& kind_or_family) {
  return kind == kind_or_family || kind.starts_with(kind_or_family + ".");
}

class Scenarios : public testing::TestWithParam<std::string> {};

TEST_P(Scenarios, TheLabelComesTrue) {
  const Result<sim::Scenario> scenario = sim::load_scenario(GetParam());
  ASSERT_TRUE(scenario) << scenario.error().message;
  const test::TemporaryFolder folder;
  test::LiveAgent agent(folder.path(), folder.path() + "/run");
  ASSERT_TRUE(agent.await_ready()) << agent.log();
  // Other jobs may run on this machine: only this one is asked for.
  const std::string label = "scenario-" + std::to_string(::getpid());
  auto job = sim::Run::start(*scenario, {folder.path() + "/run", "", label});
  ASSERT_TRUE(job) << job.error().message;

  // A name must be out within 10 s of the fault; faults begin within 10 s of the job.
  constexpr seconds kLimit{32};
  std::vector<bool> seen(scenario->label.expected.size(), false);
  const auto begun = steady_clock::now();
  std::string last;
  while (steady_clock::now() - begun < kLimit) {
    (*job)->poll();
    const Result<AgentAnswer> answer =
        ask_agent(agent.socket(), "/v1/why?format=json&job=" + label);
    ASSERT_TRUE(answer) << answer.error().message << "\n" << agent.log();
    constexpr int kNotYetSeen = 404;
    if (answer->status == kNotYetSeen) {
      std::this_thread::sleep_for(milliseconds(100));
      continue;
    }
    last = answer->body;
    for (const Report& report : reports(last)) {
      for (const std::string& forbidden : scenario->label.forbidden) {
        ASSERT_FALSE(is(report.kind, forbidden)) << summaries(last);
      }
      for (std::size_t i = 0; i < seen.size(); ++i) {
        const auto& choice = scenario->label.expected[i];
        const bool wanted = std::any_of(choice.begin(), choice.end(), [&](const std::string& kind) {
          return is(report.kind, kind);
        });
        if (!wanted) continue;
        seen[i] = true;
        const std::set<int> accused(scenario->label.ranks.begin(), scenario->label.ranks.end());
        if (!is(report.kind, "healthy") && !accused.empty()) {
          EXPECT_EQ(report.ranks, accused) << summaries(last);
        }
      }
    }
    const bool all = std::all_of(seen.begin(), seen.end(), [](bool one) { return one; });
    // Where something must never be said, the whole time is looked at.
    if (all && steady_clock::now() - begun > seconds(15)) break;
    std::this_thread::sleep_for(milliseconds(250));
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_TRUE(seen[i]) << "expected " << scenario->label.expected[i].front() << ", got "
                         << summaries(last) << "\n"
                         << agent.log();
  }
  (*job)->stop();
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  if (const auto scenarios = sim::list_scenarios()) {
    for (const sim::Scenario& scenario : *scenarios) out.push_back(scenario.name);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Scenarios, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rung
