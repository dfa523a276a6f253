// demo: the real agent beside simulated jobs. It shows what a person would see, and fails when a
// verdict does not come.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>

#include "agent/client.h"
#include "base/files.h"
#include "cli/child.h"
#include "cli/commands.h"
#include "cli/work_folder.h"
#include "rung_sim/identity.h"
#include "rung_sim/runner.h"

namespace rung::cli {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::int32_t kRanks = 8;
constexpr std::int32_t kStoppedRank = 5;

struct Stage {
  WorkFolder folder;
  std::string socket;
  ChildProcess agent;
};

// What the demo's jobs call themselves. The agent sees other jobs of this node too; the demo asks
// for its own.
std::string job_label() { return fmt::format("demo-{}", ::getpid()); }

std::string why_target() { return "/v1/why?job=" + job_label(); }

void say(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

int give_up(const std::string& message) {
  return complain("demo", Error{ErrorCode::kUnavailable, message,
                                "run with --keep and read agent.log in the work folder"});
}

std::string config_text(const Stage& stage, const std::string& nvml) {
  return fmt::format(
      "socket = \"{}\"\nstate_dir = \"{}/state\"\nprometheus_listen = \"\"\n"
      "[host]\naccepted_nccl = [{{ build_id = \"{}\", layout = \"{}\" }}]\n"
      "[nvml]\nlibrary = \"{}\"\n",
      stage.socket, stage.folder.path(), sim::kNcclBuildId, sim::kNcclVersion, nvml);
}

Result<void> start_agent(Stage& stage, const std::string& run_folder) {
  const Result<std::string> nvml = sim::nvml_library();
  if (!nvml) return tl::unexpected<Error>(nvml.error());
  stage.socket = stage.folder.path() + "/agent.sock";
  const std::string config = stage.folder.path() + "/agent.toml";
  if (const auto written = write_file_atomically(config, config_text(stage, *nvml)); !written) {
    return written;
  }
  const auto started =
      stage.agent.start({own_executable(), "agent", "--config", config},
                        {{"RUNG_SIM_DIR", run_folder}}, stage.folder.path() + "/agent.log");
  if (!started) return started;
  const auto until = steady_clock::now() + seconds(15);
  while (steady_clock::now() < until && stage.agent.running()) {
    if (ask_agent(stage.socket, "/v1/status")) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return fail(ErrorCode::kUnavailable, "the agent did not start",
              "run with --keep and read agent.log in the work folder");
}

// Waits until a verdict of `kind` stands; gives the seconds it took.
std::optional<double> await_verdict(const Stage& stage, sim::Run& job, const std::string& kind,
                                    seconds limit) {
  const auto begun = steady_clock::now();
  const std::string wanted = "\"kind\":\"" + kind;
  while (steady_clock::now() - begun < limit) {
    job.poll();
    const Result<AgentAnswer> answer = ask_agent(stage.socket, why_target() + "&format=json");
    if (answer && answer->body.find(wanted) != std::string::npos) {
      return std::chrono::duration<double>(steady_clock::now() - begun).count();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  }
  return std::nullopt;
}

// Prints what `command`, as a person would type it, prints, with its exit code; gives the code.
int show(const Stage& stage, const std::string& command, const std::string& target) {
  say("\n$ rung " + command);
  const int code = print_answer(command.substr(0, command.find(' ')), AgentOptions{stage.socket},
                                fmt::format("{}format=text&colour={}&width={}", target,
                                            want_colour() ? 1 : 0, terminal_width()));
  say(fmt::format("(exit {})", code));
  return code;
}

int show_why(const Stage& stage) { return show(stage, "why " + job_label(), why_target() + "&"); }

int await_and_show(const Stage& stage, sim::Run& job, const std::string& kind, int expected_exit) {
  const auto took = await_verdict(stage, job, kind, seconds(15));
  if (!took) {
    show_why(stage);
    return give_up("no verdict '" + kind + "' within 15 s");
  }
  say(fmt::format("verdict '{}' after {:.1f} s", kind, *took));
  const int code = show_why(stage);
  if (code != expected_exit) {
    return give_up(fmt::format("'why' exits with {} instead of {}", code, expected_exit));
  }
  return 0;
}

Result<std::unique_ptr<sim::Run>> start_job(const std::string& name, const std::string& folder) {
  Result<sim::Scenario> scenario = sim::load_scenario(name);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  sim::Overrides overrides;
  overrides.world_size = kRanks;
  scenario = sim::apply(*scenario, overrides);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  sim::RunOptions options;
  options.folder = folder;
  options.run_id = job_label();
  return sim::Run::start(*scenario, options);
}

int act_one(Stage& stage, const std::string& folder) {
  say("== 1. A healthy job: 8 simulated ranks");
  Result<std::unique_ptr<sim::Run>> job = start_job("healthy", folder);
  if (!job) return complain("demo", job.error());
  if (const auto started = start_agent(stage, folder); !started) {
    return complain("demo", started.error());
  }
  if (const int failed = await_and_show(stage, **job, "healthy.", 0); failed != 0) return failed;
  show(stage, "status", "/v1/status?");

  say(fmt::format("\n== 2. Rank {} is stopped (SIGSTOP)", kStoppedRank));
  if (const auto sent = (*job)->signal_rank(kStoppedRank, SIGSTOP); !sent) {
    return complain("demo", sent.error());
  }
  if (const int failed = await_and_show(stage, **job, "rank.stopped", 1); failed != 0)
    return failed;

  say("\n== 3. It may go on (SIGCONT)");
  if (const auto sent = (*job)->signal_rank(kStoppedRank, SIGCONT); !sent) {
    return complain("demo", sent.error());
  }
  return await_and_show(stage, **job, "healthy.", 0);
}

int act_two(Stage& stage, const std::string& folder) {
  say("\n== 4. Another job: rank 0 writes a checkpoint while the others wait");
  // The first job was cut off on purpose; a fresh agent knows nothing of it.
  stage.agent.stop();
  Result<std::unique_ptr<sim::Run>> job = start_job("checkpoint_pause", folder);
  if (!job) return complain("demo", job.error());
  if (const auto started = start_agent(stage, folder); !started) {
    return complain("demo", started.error());
  }
  return await_and_show(stage, **job, "pause.checkpoint", 0);
}

}  // namespace

int demo(const DemoOptions& options) {
  Stage stage;
  if (const auto made = stage.folder.make("rung-demo"); !made)
    return complain("demo", made.error());
  if (options.keep) stage.folder.keep();
  say("Everything below is simulated but the agent, its probes and its judgement.");
  say("Work folder: " + stage.folder.path());
  int code = act_one(stage, stage.folder.path() + "/first");
  if (code == 0) code = act_two(stage, stage.folder.path() + "/second");
  stage.agent.stop();
  if (code == 0)
    say("\nDemo complete: the stopped rank was named, the checkpoint was not accused.");
  return code;
}

}  // namespace rung::cli
