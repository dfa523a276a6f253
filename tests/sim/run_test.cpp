// Whole runs of scenarios: real processes, seen from outside as the agent sees them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/files.h"
#include "rung_sim/runner.h"

namespace rung::sim {
namespace {

using Job = Run;  // testing::Test has a private member Run
using std::chrono::seconds;

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "rung-sim-test-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class RunTest : public testing::Test {
 protected:
  std::unique_ptr<Job> start(const std::string& name, const Overrides& overrides,
                             const std::string& sub_folder = "run") {
    auto scenario = load_scenario(name, RUNG_SIM_TEST_HOME);
    EXPECT_TRUE(scenario) << scenario.error().message;
    auto changed = apply(*scenario, overrides);
    EXPECT_TRUE(changed) << changed.error().message;
    auto run = Job::start(*changed, {folder_.path() + "/" + sub_folder, RUNG_SIM_TEST_HOME});
    EXPECT_TRUE(run) << run.error().message;
    return std::move(*run);
  }

  static std::string log_of(const Job& run, int rank) {
    return read_file(run.folder() + "/rank-" + std::to_string(rank) + ".log", 1 << 16).value_or("");
  }

  static char state_of(pid_t pid) {
    const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096).value_or("");
    const std::size_t end = stat.rfind(')');
    return end == stat.npos ? '?' : stat[end + 2];
  }

  TempFolder folder_;
};

TEST_F(RunTest, HealthyRunEndsWithTheSameLossEachTime) {
  std::string first;
  for (const char* sub : {"a", "b"}) {
    auto run = start("healthy", {.steps = 5, .step_ms = 10}, sub);
    ASSERT_TRUE(run->wait(seconds(60)));
    EXPECT_EQ(run->exit_code(), 0);
    for (const RankStatus& rank : run->ranks()) {
      EXPECT_EQ(rank.wait_status, 0) << log_of(*run, rank.rank);
      EXPECT_EQ(rank.steps_done, 5);
      EXPECT_FALSE(rank.fault_unix_ns);
    }
    const std::string log = log_of(*run, 0);
    EXPECT_TRUE(log.starts_with("simulated rank 0 steps 5 loss ")) << log;
    if (first.empty()) first = log;
    EXPECT_EQ(log, first);
  }
}

TEST_F(RunTest, AStoppedRankHoldsTheOthers) {
  auto run = start("rank_sigstop", {.step_ms = 10, .fault_at_step = 3});
  ASSERT_TRUE(run->wait(seconds(60), [](const Job& r) {
    return r.ranks()[2].fault_unix_ns && state_of(r.ranks()[2].pid) == 'T';
  }));
  for (const RankStatus& rank : run->ranks()) {
    EXPECT_TRUE(rank.running);
    EXPECT_LE(rank.steps_done, 4);
  }
}

}  // namespace
}  // namespace rung::sim
