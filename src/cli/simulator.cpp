// sim: jobs on the simulated node.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/json_writer.h"
#include "cli/commands.h"
#include "cli/work_folder.h"
#include "rung_sim/runner.h"

namespace rung::cli {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void interrupt(int) { g_interrupted = 1; }

sim::Overrides overrides_of(const SimOptions& options) {
  sim::Overrides out;
  out.world_size = options.ranks;
  out.duration_s = options.seconds;
  out.fault_for_s = options.fault_seconds;
  return out;
}

// Steps of the slowest rank, and how many ranks run.
std::string progress_line(const sim::Run& run) {
  std::int64_t slowest = -1;
  int running = 0;
  for (const sim::RankStatus& rank : run.ranks()) {
    slowest = slowest < 0 ? rank.steps_done : std::min(slowest, rank.steps_done);
    running += rank.running ? 1 : 0;
  }
  return fmt::format("{} of {} ranks running, step {}", running, run.ranks().size(),
                     std::max<std::int64_t>(slowest, 0));
}

int follow(sim::Run& run) {
  const bool show = ::isatty(STDERR_FILENO) == 1;
  while (run.poll()) {
    if (g_interrupted != 0) {
      fmt::print(stderr, "\ninterrupted; ending the simulated job\n");
      run.stop();
      return 130;
    }
    if (show) fmt::print(stderr, "\rsimulated: {}   ", progress_line(run));
    run.wait(std::chrono::milliseconds(250));
  }
  if (show) fmt::print(stderr, "\n");
  return run.exit_code().value_or(1);
}

}  // namespace

int sim_run(const SimOptions& options) {
  Result<sim::Scenario> scenario = sim::load_scenario(options.scenario);
  if (!scenario) return complain("sim", scenario.error());
  scenario = sim::apply(*scenario, overrides_of(options));
  if (!scenario) return complain("sim", scenario.error());
  WorkFolder temporary;
  sim::RunOptions where;
  where.folder = options.folder;
  if (where.folder.empty()) {
    if (const auto made = temporary.make("rung-sim"); !made) return complain("sim", made.error());
    where.folder = temporary.path() + "/run";
  }
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  Result<std::unique_ptr<sim::Run>> run = sim::Run::start(*scenario, where);
  if (!run) return complain("sim", run.error());
  fmt::print("simulated job '{}': {} ranks, launcher pid {}, folder {}\n{}\n", scenario->name,
             scenario->world_size, (*run)->launcher_pid(), where.folder, scenario->description);
  std::fflush(stdout);
  const int code = follow(**run);
  fmt::print("simulated job ended with {}; {}\n", code, progress_line(**run));
  return code;
}

int sim_list(bool json) {
  const Result<std::vector<sim::Scenario>> scenarios = sim::list_scenarios();
  if (!scenarios) return complain("sim", scenarios.error());
  if (!json) {
    for (const sim::Scenario& scenario : *scenarios) {
      fmt::print("{:24} {:3} ranks  {}\n", scenario.name, scenario.world_size,
                 scenario.description);
    }
    return 0;
  }
  JsonWriter out;
  out.begin_object().field("schema", "rung.sim_list/1").key("scenarios").begin_array();
  for (const sim::Scenario& scenario : *scenarios) {
    out.begin_object().field("name", scenario.name).field("ranks", scenario.world_size);
    out.field("description", scenario.description).end_object();
  }
  out.end_array().end_object();
  fmt::print("{}\n", out.text());
  return 0;
}

}  // namespace rung::cli
