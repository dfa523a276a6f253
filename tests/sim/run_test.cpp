// Whole runs of scenarios: real processes, seen from outside as the agent sees them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/files.h"
#include "rung_sim/runner.h"
#include "sim/child.h"

namespace rung::sim {
namespace {

using Job = Run;  // testing::Test has a private member Run
using std::chrono::milliseconds;
using std::chrono::seconds;

class RunTest : public testing::Test {
 protected:
  std::unique_ptr<Job> start(const std::string& name, const Overrides& overrides,
                             const std::string& sub_folder = "run") {
    auto scenario = load_scenario(name, RUNG_SIM_TEST_HOME);
    EXPECT_TRUE(scenario) << scenario.error().message;
    auto changed = apply(*scenario, overrides);
    EXPECT_TRUE(changed) << changed.error().message;
    changed->startup_s = 0;
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

  static bool all_training(const Job& run) {
    return std::ranges::all_of(run.ranks(), [](const auto& rank) { return rank.steps_done > 0; });
  }

  // Neither running nor a zombie.
  static bool gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

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

TEST_F(RunTest, RanksHaveTheEnvironmentOfTorchrunAndTheLauncherHasNot) {
  auto run = start("healthy", {.step_ms = 10});
  ASSERT_TRUE(run->wait(seconds(60), all_training));
  const auto variables = [](pid_t pid) {
    return read_file("/proc/" + std::to_string(pid) + "/environ", 1 << 20).value_or("");
  };
  const std::string rank = variables(run->ranks()[3].pid);
  for (const char* entry : {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=3", "LOCAL_WORLD_SIZE=4",
                            "MASTER_ADDR=127.0.0.1", "TORCHELASTIC_RUN_ID=simulated"}) {
    EXPECT_NE(rank.find(std::string(entry) + '\0'), rank.npos) << entry;
  }
  const std::string launcher = variables(run->launcher_pid());
  EXPECT_EQ(launcher.find(std::string("\0RANK=", 6)), launcher.npos);
  EXPECT_NE(read_file("/proc/" + std::to_string(run->ranks()[0].pid) + "/maps", 1 << 20)
                .value_or("")
                .find("/libnccl.so.2"),
            std::string::npos);
}

TEST_F(RunTest, AStoppedRankHoldsTheOthers) {
  auto run = start("rank_sigstop", {.step_ms = 10, .fault_at_step = 3});
  ASSERT_TRUE(run->wait(seconds(60), [](const Job& r) {
    return r.ranks()[2].fault_unix_ns && state_of(r.ranks()[2].pid) == 'T';
  }));
  EXPECT_FALSE(run->wait(milliseconds(300)));
  for (const RankStatus& rank : run->ranks()) {
    EXPECT_TRUE(rank.running);
    EXPECT_EQ(rank.steps_done, 3);
  }
}

TEST_F(RunTest, AStoppedRankIsContinuedAfterItsTime) {
  auto run =
      start("rank_sigstop", {.steps = 6, .step_ms = 10, .fault_at_step = 3, .fault_for_s = 0.2});
  ASSERT_TRUE(run->wait(seconds(60)));
  EXPECT_EQ(run->exit_code(), 0);
  EXPECT_TRUE(run->ranks()[2].fault_unix_ns);
  EXPECT_TRUE(run->ranks()[2].recovered_unix_ns);
  // A fault that is over leaves no trace in the result.
  auto healthy = start("healthy", {.steps = 6, .step_ms = 10}, "healthy");
  ASSERT_TRUE(healthy->wait(seconds(60)));
  EXPECT_EQ(log_of(*run, 1), log_of(*healthy, 1));
}

TEST_F(RunTest, ASignalFromOutsideStopsAndContinuesARank) {
  auto run = start("healthy", {.step_ms = 10});
  ASSERT_TRUE(run->wait(seconds(60), all_training));
  ASSERT_TRUE(run->signal_rank(1, SIGSTOP));
  ASSERT_TRUE(
      run->wait(seconds(60), [](const Job& r) { return state_of(r.ranks()[1].pid) == 'T'; }));
  run->wait(milliseconds(200));
  const std::int64_t before = run->ranks()[0].steps_done;
  EXPECT_FALSE(run->wait(milliseconds(200)));
  EXPECT_EQ(run->ranks()[0].steps_done, before);
  ASSERT_TRUE(run->signal_rank(1, SIGCONT));
  EXPECT_TRUE(
      run->wait(seconds(60), [&](const Job& r) { return r.ranks()[0].steps_done > before; }));
  EXPECT_FALSE(run->signal_rank(4, SIGSTOP));
}

TEST_F(RunTest, AKilledRankLeavesTheOthersWaiting) {
  auto run = start("rank_killed", {.step_ms = 10, .fault_at_step = 3});
  ASSERT_TRUE(
      run->wait(seconds(60), [](const Job& r) { return r.ranks()[2].wait_status.has_value(); }));
  EXPECT_EQ(run->ranks()[2].wait_status, SIGKILL);
  EXPECT_FALSE(run->wait(milliseconds(300)));
  EXPECT_TRUE(run->ranks()[0].running);
  EXPECT_FALSE(run->ranks()[2].running);
  EXPECT_FALSE(run->signal_rank(2, SIGCONT));
}

TEST_F(RunTest, TheLauncherTearsDownOnRequest) {
  auto run = start("rank_killed", {.step_ms = 10, .tear_down = true, .fault_at_step = 3});
  ASSERT_TRUE(run->wait(seconds(60)));
  EXPECT_EQ(run->exit_code(), 1);
  EXPECT_EQ(run->ranks()[2].wait_status, SIGKILL);
  EXPECT_EQ(run->ranks()[0].wait_status, SIGTERM);
}

class Wedges : public RunTest, public testing::WithParamInterface<const char*> {};

TEST_P(Wedges, NobodyEndsTheStepOfTheFault) {
  auto run = start(GetParam(), {.step_ms = 10, .fault_at_step = 3});
  ASSERT_TRUE(run->wait(seconds(60), [](const Job& r) {
    return std::ranges::any_of(r.ranks(),
                               [](const auto& rank) { return rank.fault_unix_ns.has_value(); });
  }));
  EXPECT_FALSE(run->wait(milliseconds(500)));
  for (const RankStatus& rank : run->ranks()) {
    EXPECT_TRUE(rank.running);
    EXPECT_EQ(rank.steps_done, 3);
  }
}
INSTANTIATE_TEST_SUITE_P(Faults, Wedges,
                         testing::Values("sleep_before_collective", "collective_size",
                                         "skip_collective", "none_completes", "kernel_never_ends"));

TEST_F(RunTest, AMissingRankHoldsInitialisation) {
  auto run = start("init_missing_rank", {});
  ASSERT_TRUE(
      run->wait(seconds(60), [](const Job& r) { return r.ranks()[3].fault_unix_ns.has_value(); }));
  EXPECT_FALSE(run->wait(milliseconds(300)));
  for (const RankStatus& rank : run->ranks()) {
    EXPECT_TRUE(rank.running);
    EXPECT_FALSE(rank.training_unix_ns);
  }
}

TEST_F(RunTest, ACheckpointWritesBytesAndEnds) {
  auto run =
      start("checkpoint_pause", {.steps = 6, .step_ms = 10, .fault_at_step = 3, .fault_for_s = 1});
  ASSERT_TRUE(
      run->wait(seconds(60), [](const Job& r) { return r.ranks()[0].fault_unix_ns.has_value(); }));
  const auto written = [&] {
    const std::string io =
        read_file("/proc/" + std::to_string(run->ranks()[0].pid) + "/io", 4096).value_or("");
    const std::size_t at = io.find("wchar: ");
    return at == io.npos ? 0 : std::stoll(io.substr(at + 7));
  };
  EXPECT_TRUE(run->wait(seconds(60), [&](const Job&) { return written() > 3 << 20; }));
  EXPECT_EQ(run->ranks()[1].steps_done, 3);
  ASSERT_TRUE(run->wait(seconds(60)));
  EXPECT_EQ(run->exit_code(), 0);
  EXPECT_TRUE(run->ranks()[0].recovered_unix_ns);
  EXPECT_FALSE(std::filesystem::exists(run->folder() + "/checkpoint.bin"));
}

TEST_F(RunTest, GroupsOfThreeKindsTrainTogether) {
  auto run = start("healthy_tp_pp_dp", {.steps = 5, .step_ms = 20});
  ASSERT_TRUE(run->wait(seconds(60)));
  EXPECT_EQ(run->exit_code(), 0) << log_of(*run, 0);
  for (const RankStatus& rank : run->ranks()) EXPECT_EQ(rank.steps_done, 5);
}

TEST_F(RunTest, AStoppedRankHoldsAllGroups) {
  auto run = start("tp_pp_dp_stopped", {.step_ms = 20, .fault_at_step = 2});
  ASSERT_TRUE(
      run->wait(seconds(60), [](const Job& r) { return r.ranks()[5].fault_unix_ns.has_value(); }));
  EXPECT_FALSE(run->wait(milliseconds(500)));
  const std::int64_t before = run->ranks()[0].steps_done;
  EXPECT_FALSE(run->wait(milliseconds(300)));
  EXPECT_EQ(run->ranks()[0].steps_done, before);
}

TEST_F(RunTest, ManyRanksStartAndEnd) {
  auto run = start("scale_64", {.steps = 3, .step_ms = 20});
  ASSERT_TRUE(run->wait(seconds(100)));
  EXPECT_EQ(run->exit_code(), 0);
}

TEST_F(RunTest, StopLeavesNoProcess) {
  std::vector<pid_t> pids;
  {
    auto run = start("rank_sigstop", {.step_ms = 10, .fault_at_step = 1});
    ASSERT_TRUE(
        run->wait(seconds(60), [](const Job& r) { return state_of(r.ranks()[2].pid) == 'T'; }));
    pids.push_back(run->launcher_pid());
    for (const RankStatus& rank : run->ranks()) pids.push_back(rank.pid);
    run->stop();
    run->stop();
    EXPECT_FALSE(run->poll());
    for (const RankStatus& rank : run->ranks()) EXPECT_FALSE(rank.running);
  }
  for (const pid_t pid : pids) EXPECT_TRUE(gone(pid)) << pid;
}

TEST_F(RunTest, RanksDieWithTheirLauncherAndTheLauncherWithTheRunner) {
  for (const bool kill_runner : {true, false}) {
    const std::string folder = folder_.path() + (kill_runner ? "/r" : "/l");
    Child runner(folder, [&](Child& self) {
      auto scenario = load_scenario("healthy", RUNG_SIM_TEST_HOME);
      auto run = Job::start(*scenario, {folder, RUNG_SIM_TEST_HOME});
      SIM_CHECK(run && (*run)->wait(seconds(60), all_training));
      self.send((*run)->launcher_pid());
      for (const RankStatus& rank : (*run)->ranks()) self.send(rank.pid);
      return self.receive<int>();
    });
    std::vector<pid_t> pids;
    for (int i = 0; i < 5; ++i) pids.push_back(runner.receive<pid_t>());
    ::kill(kill_runner ? runner.pid() : pids[0], SIGKILL);
    // The runner's own child stays a zombie until the runner ends.
    for (std::size_t i = kill_runner ? 0 : 1; i < pids.size(); ++i) {
      for (int tries = 0; tries < 500 && !gone(pids[i]); ++tries) ::usleep(10000);
      EXPECT_TRUE(gone(pids[i])) << pids[i];
    }
  }
}

TEST_F(RunTest, AFolderHoldsOneRunAtATime) {
  auto first = start("healthy", {.step_ms = 10});
  const auto second = Job::start(first->scenario(), {first->folder(), RUNG_SIM_TEST_HOME});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUsage);
  ASSERT_TRUE(first->wait(seconds(60), all_training));
  first->stop();
  auto third = start("healthy", {.steps = 2, .step_ms = 10});
  ASSERT_TRUE(third->wait(seconds(60)));
  EXPECT_EQ(third->exit_code(), 0);
  EXPECT_EQ(third->ranks()[0].steps_done, 2);
}

}  // namespace
}  // namespace rung::sim
