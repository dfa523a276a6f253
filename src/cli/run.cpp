#include "cli/run.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>

#include "base/version.h"
#include "cli/commands.h"
#include "sources/host_probes/canary.h"
#include "sources/nvml/vendor_worker.h"

namespace rung::cli {
namespace {

constexpr int kUsageExit = 64;
constexpr int kInternalExit = 70;

using Chosen = std::function<int()>;

void add_agent_options(CLI::App& command, AgentOptions& options) {
  if (const char* socket = std::getenv("RUNG_SOCKET")) options.socket = socket;
  command.add_option("--socket", options.socket, "The agent's local socket (or RUNG_SOCKET)")
      ->capture_default_str();
}

void add_why(CLI::App& app, Chosen& chosen) {
  static WhyOptions options;
  CLI::App& command =
      *app.add_subcommand("why", "What is wrong, with which rank, on what evidence");
  command.add_option("job", options.job, "Job id or label; without it all jobs you may see");
  command.add_option("--at", options.at, "The verdicts of then: RFC 3339, Unix seconds or -90s");
  command.add_option("--fail-on", options.fail_on, "Further kinds or families that exit with 1");
  command.add_option("--save", options.save, "Also write the JSON to this file");
  command.add_flag("--json", options.json, "One JSON object, schema rung.why/1");
  add_agent_options(command, options.agent);
  command.footer(
      "Exit code: 1 when a verdict of family hang, rank, init, device, slow or observer stands,\n"
      "2 when nothing but 'unknown' can be said, else 0 (also for stalls and pauses).");
  command.callback([&] { chosen = [] { return why(options); }; });
}

void add_status(CLI::App& app, Chosen& chosen) {
  static StatusOptions options;
  CLI::App& command = *app.add_subcommand("status", "Jobs, ranks, progress and coverage");
  command.add_flag("--json", options.json, "One JSON object, schema rung.status/1");
  add_agent_options(command, options.agent);
  command.callback([&] { chosen = [] { return status(options); }; });
}

void add_agent(CLI::App& app, Chosen& chosen) {
  static AgentCommandOptions options;
  CLI::App& command = *app.add_subcommand("agent", "The node daemon: finds jobs and watches them");
  command.add_option("--config", options.config, "Config file; default /etc/rung/agent.toml");
  command.add_flag("--check", options.check, "Only check the config, print what it means, exit");
  command.callback([&] { chosen = [] { return agent(options); }; });
}

void add_doctor(CLI::App& app, Chosen& chosen) {
  static DoctorOptions options;
  CLI::App& command = *app.add_subcommand("doctor", "What each rung could do here, and why not");
  command.add_option("--pid", options.pid, "Also look at the libraries of this process");
  command.add_option("--config", options.config, "Config file with further accepted NCCL builds");
  command.add_option("--root", options.root, "Folder to take for / when reading /proc and /sys");
  command.add_flag("--json", options.json, "One JSON object, schema rung.doctor/1");
  command.callback([&] { chosen = [] { return doctor(options); }; });
}

void add_record(CLI::App& app, Chosen& chosen) {
  static RecordOptions options;
  CLI::App& command = *app.add_subcommand("record", "Save the evidence as a file for 'replay'");
  command.add_option("-o,--output", options.output, "The file to make; must not exist")->required();
  command.add_option("--for", options.seconds, "How long, in seconds")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 3600.0));
  command.add_option("job", options.job, "Only this job");
  add_agent_options(command, options.agent);
  command.callback([&] { chosen = [] { return record(options); }; });
}

void add_replay(CLI::App& app, Chosen& chosen) {
  static ReplayOptions options;
  CLI::App& command = *app.add_subcommand("replay", "Run a recording through the same judgement");
  command.add_option("file", options.file, "A file made by 'rung record'")->required();
  command.add_option("--fail-on", options.fail_on, "Further kinds or families that exit with 1");
  command.add_flag("--check", options.check, "Exit 1 unless the live verdicts come out again");
  command.add_flag("--json", options.json, "One JSON object, schema rung.replay/1");
  command.footer("Exit code: as 'why', over all verdicts that stood at any time of the recording.");
  command.callback([&] { chosen = [] { return replay(options); }; });
}

void add_sim(CLI::App& app, Chosen& chosen) {
  static SimOptions options;
  CLI::App& command = *app.add_subcommand("sim", "The simulated node (no GPU needed)");
  command.require_subcommand(1);
  CLI::App& run = *command.add_subcommand("run", "Run one scenario's job until it ends");
  run.add_option("scenario", options.scenario, "Name from 'rung sim list', or a TOML file")
      ->required();
  run.add_option("--folder", options.folder, "Where to put logs; default a temporary folder");
  run.add_option("--ranks", options.ranks, "Number of ranks instead of the scenario's")
      ->check(CLI::Range(1, 512));
  run.add_option("--for", options.seconds, "Seconds to train instead of the scenario's")
      ->check(CLI::Range(0.1, 86400.0));
  run.add_option("--fault-for", options.fault_seconds, "Seconds that the fault lasts")
      ->check(CLI::Range(0.1, 86400.0));
  run.callback([&] { chosen = [] { return sim_run(options); }; });
  CLI::App& list = *command.add_subcommand("list", "The scenarios that come with Rung");
  list.add_flag("--json", options.json, "One JSON object, schema rung.sim_list/1");
  list.callback([&] { chosen = [] { return sim_list(options.json); }; });
}

void add_demo(CLI::App& app, Chosen& chosen) {
  static DemoOptions options;
  CLI::App& command = *app.add_subcommand(
      "demo", "A simulated 8-GPU job, watched by the real agent; a stopped rank is named");
  command.add_flag("--keep", options.keep, "Leave the work folder with logs in place");
  command.callback([&] { chosen = [] { return demo(options); }; });
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Rung tells what each GPU of a distributed training job was actually doing.",
               "rung");
  app.set_version_flag("--version", std::string("rung ") + kVersion);
  app.require_subcommand(1);
  app.footer(
      "'rung COMMAND --help' tells more. Errors are one line on stderr; exit codes: 64 usage,\n"
      "65 bad input, 66 no such job or input, 69 unavailable, 70 our bug, 77 no permission.");
  Chosen chosen;
  add_demo(app, chosen);
  add_agent(app, chosen);
  add_status(app, chosen);
  add_why(app, chosen);
  add_doctor(app, chosen);
  add_record(app, chosen);
  add_replay(app, chosen);
  add_sim(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::string command = argc > 1 && argv[1][0] != '-' ? argv[1] : "";
    const auto all = app.get_subcommands([](CLI::App*) { return true; });
    const bool known = std::any_of(all.begin(), all.end(),
                                   [&](CLI::App* each) { return each->get_name() == command; });
    const std::string hint = known ? "rung " + command + " --help" : "rung --help";
    std::string message = error.what();
    if (!command.empty() && !known) message = "no command '" + command + "'";
    std::fprintf(stderr, "rung: %s (hint: see '%s')\n", message.c_str(), hint.c_str());
    return kUsageExit;
  }
  return chosen ? chosen() : kUsageExit;
}

}  // namespace

int run(int argc, char** argv) {
  const std::vector<std::string> rest(argv + std::min(argc, 2), argv + argc);
  const std::string first = argc > 1 ? argv[1] : "";
  // Helper processes of the agent; not for people, so not in the help.
  if (first == "vendor-worker") return vendor_worker_main(rest);
  if (first == "canary") return canary_main(argc - 2, argv + 2);
  try {
    return parse_and_run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rung: %s (hint: this is a bug of rung, please report it)\n",
                 error.what());
    return kInternalExit;
  }
}

}  // namespace rung::cli
