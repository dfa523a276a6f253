// Runs scenarios on a simulated node: real processes as ranks, fake vendor libraries under them.
//
// The files of the simulator (libraries, rung-sim-rank, scenarios/) are looked for in
// RunOptions::home, then in $RUNG_SIM_HOME, then in `sim`, `../sim` and `../lib/rung/sim` beside
// the running executable.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace rung::sim {

// What a rank does wrong, and when. Exactly one of at_step and at_s is set, except for
// kInitMissing, which has neither.
struct Fault {
  enum class Kind {
    kSleepBeforeCollective,  // the host thread sleeps and does not join the step's collectives
    kCollectiveSize,         // joins with another element count
    kSkipCollective,         // leaves out one gradient bucket
    kKill,                   // SIGKILL to itself
    kStop,                   // SIGSTOP to itself; for_s: the launcher sends SIGCONT
    kNoneCompletes,          // every rank joins, no device completes
    kKernelNeverEnds,        // a computing kernel of this rank does not return
    kCheckpoint,             // writes and syncs real bytes for for_s, the others wait
    kSlow,                   // device kernels take `factor` times as long
    kInitMissing,            // does not call ncclCommInitRank
  };
  Kind kind = Kind::kSleepBeforeCollective;
  std::int32_t rank = 0;
  std::optional<std::int64_t> at_step = {};  // from 0
  std::optional<double> at_s = {};           // seconds after the rank's first step
  std::optional<double> for_s = {};          // for ever if absent
  double factor = 1.2;                       // kSlow only
};
const char* name_of(Fault::Kind kind);  // as written in scenario files: "sleep_before_collective"

// Groups of tensor, pipeline and data parallelism; rank = t + tensor * (d + data * p).
struct Layout {
  std::int32_t tensor = 1;
  std::int32_t pipeline = 1;
  std::int32_t data = 1;
};

// What a diagnosis is expected to say about a scenario.
struct Label {
  // Each element must come true after the fault began (in any order): one of its verdict kinds or
  // families ("healthy") is reported.
  std::vector<std::vector<std::string>> expected;
  std::vector<std::int32_t> ranks;     // whom the first element accuses; empty: nobody
  std::vector<std::string> forbidden;  // kinds or families not to be reported in the whole run
};

struct Scenario {
  std::string name;
  std::string description;
  std::int32_t world_size = 4;
  Layout layout;  // 1x1xworld_size: plain data parallelism on one communicator
  double step_ms = 60;
  // Between loading the vendor libraries and making the first communicator; a framework takes some
  // seconds there.
  double startup_s = 2;
  std::int64_t steps = 0;  // 0: 100,000, which is longer than anybody looks
  bool spin = false;       // host waits burn CPU, as NCCL's and the driver's do
  bool tear_down = false;  // the launcher ends the peers after the first failure, as torchrun does
  std::vector<Fault> faults;
  Label label;
};

// Reads a scenario by path (contains '/' or ends with .toml) or by name from the scenario folder.
// Errors: kNotFound; kBadInput with the line.
Result<Scenario> load_scenario(const std::string& name_or_path, const std::string& home = "");
Result<Scenario> parse_scenario(const std::string& text, const std::string& origin);
std::string to_toml(const Scenario& scenario);  // parse_scenario(to_toml(s)) gives s again
// Kinds and ranges; load_scenario and Run::start call it.
Result<void> check(const Scenario& scenario);
// All scenarios of the scenario folder by name.
Result<std::vector<Scenario>> list_scenarios(const std::string& home = "");
// The folder that holds the simulator's files.
Result<std::string> find_home(const std::string& home = "");

// Command-line changes to a scenario.
struct Overrides {
  std::optional<std::int32_t> world_size = {};  // plain data parallelism only
  std::optional<std::int64_t> steps = {};
  std::optional<double> duration_s = {};  // gives steps, by step_ms
  std::optional<double> step_ms = {};
  std::optional<bool> spin = {};
  std::optional<bool> tear_down = {};
  std::optional<std::int64_t> fault_at_step = {};  // of every fault that has a time
  std::optional<double> fault_at_s = {};
  std::optional<double> fault_for_s = {};
};
Result<Scenario> apply(Scenario scenario, const Overrides& overrides);

struct RankStatus {
  std::int32_t rank = 0;
  pid_t pid = 0;  // 0: not yet started
  bool running = false;
  std::optional<int> wait_status = {};  // of waitpid, after its end
  std::int64_t steps_done = 0;
  std::optional<std::int64_t> training_unix_ns = {};   // its first step began
  std::optional<std::int64_t> fault_unix_ns = {};      // its fault began
  std::optional<std::int64_t> recovered_unix_ns = {};  // its fault ended
};

struct RunOptions {
  // The run folder: fabric, one log per rank, nvml.control. Made if absent; files of an earlier run
  // are replaced, a running one is an error (kUsage). Give it as RUNG_SIM_DIR to whoever shall see
  // the simulated NVML; that may also start before the run.
  std::string folder;
  std::string home = {};
  std::string run_id = "simulated";  // TORCHELASTIC_RUN_ID of the ranks
};

// One running job: a launcher process and its ranks. Not thread-safe.
class Run {
 public:
  // Starts the job and returns at once. Errors: kBadInput, kNotFound, kUnavailable.
  static Result<std::unique_ptr<Run>> start(const Scenario& scenario, const RunOptions& options);
  ~Run();  // stop()
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  pid_t launcher_pid() const { return launcher_; }
  const Scenario& scenario() const { return scenario_; }
  const std::string& folder() const { return folder_; }

  // Takes in what happened since the last call; true while the launcher lives. Does not block.
  bool poll();
  // State of all ranks as of the last poll().
  const std::vector<RankStatus>& ranks() const { return ranks_; }
  // Polls until `done` says so, the job ended or the time is up; true unless the time is up.
  bool wait(std::chrono::milliseconds limit, const std::function<bool(const Run&)>& done = {});
  // Exit code of the launcher (0: all ranks ended with 0), once it has ended.
  std::optional<int> exit_code() const { return exit_code_; }

  // Sends a signal to one rank, as a person would with kill(1).
  Result<void> signal_rank(std::int32_t rank, int signal);
  // Ends launcher and ranks, also stopped ones, and reaps them. Idempotent.
  void stop();

 private:
  struct Handles;
  Run(Scenario scenario, std::string folder);
  void read_events();
  void read_board();
  void reap();

  Scenario scenario_;
  std::string folder_;
  std::vector<RankStatus> ranks_;
  pid_t launcher_ = 0;
  std::optional<int> exit_code_;
  std::unique_ptr<Handles> handles_;
};

// PATH of the simulated libnvidia-ml.so.1, for tools that take a library path.
Result<std::string> nvml_library(const std::string& home = "");

}  // namespace rung::sim
