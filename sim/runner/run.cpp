#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/fd.h"
#include "base/files.h"
#include "fabric/fabric.h"
#include "rung_sim/runner.h"
#include "runner/events.h"

extern char** environ;

namespace rung::sim {
namespace {

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "cannot make a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// This process's environment for the job: with the fakes first on the library path and without the
// variables of a launcher that may be around us.
std::vector<std::string> job_environment(const std::string& home, const std::string& folder,
                                         const Scenario& scenario) {
  constexpr std::array kReplaced{
      "LD_LIBRARY_PATH=", "RUNG_SIM_DIR=", "RUNG_SIM_WAITS=",   "RANK=",
      "WORLD_SIZE=",      "LOCAL_RANK=",   "LOCAL_WORLD_SIZE=", "CUDA_VISIBLE_DEVICES="};
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (std::ranges::none_of(kReplaced, [&](const char* name) { return text.starts_with(name); })) {
      variables.emplace_back(text);
    }
  }
  const char* before = std::getenv("LD_LIBRARY_PATH");
  variables.push_back("LD_LIBRARY_PATH=" + home + (before == nullptr ? "" : ":") +
                      (before == nullptr ? "" : before));
  variables.push_back("RUNG_SIM_DIR=" + folder);
  variables.push_back(std::string("RUNG_SIM_WAITS=") + (scenario.spin ? "spin" : "sleep"));
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// Runs in the forked child, where only async-signal-safe calls are allowed.
[[noreturn]] void become_launcher(const char* program, char* const* arguments,
                                  char* const* environment, int log, int lifeline, int events) {
  // A group of its own: Ctrl-C on the terminal reaches the caller, who then stops the run.
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD}) ::signal(signal, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  // Descriptors of the caller are none of the job's business.
  const int low = std::min(lifeline, events), high = std::max(lifeline, events);
  if (low > 3) ::syscall(SYS_close_range, 3, low - 1, 0);
  if (high > low + 1) ::syscall(SYS_close_range, low + 1, high - 1, 0);
  ::syscall(SYS_close_range, high + 1, ~0U, 0);
  ::fcntl(lifeline, F_SETFD, 0);
  ::fcntl(events, F_SETFD, 0);
  ::execve(program, arguments, environment);
  ::_exit(127);
}

// Makes the folder ready for a new run and gives its lock. Of an earlier run only files that we
// wrote are removed; nvml.control stays, since it may be there for this run.
Result<Fd> prepare_folder(const Scenario& scenario, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail_errno(error.value(), "cannot make the run folder " + folder);
  Fd lock(::open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return fail_errno(errno, "cannot write into " + folder);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::kUsage, "a simulated job runs in " + folder, "give another folder");
  }
  for (const char* name : {"/fabric", "/launcher.log", "/checkpoint.bin"}) {
    ::unlink((folder + name).c_str());
  }
  for (std::size_t rank = 0; rank < kMaxRanks; ++rank) {
    ::unlink((folder + "/rank-" + std::to_string(rank) + ".log").c_str());
  }
  auto written = write_file_atomically(folder + "/scenario.toml", to_toml(scenario));
  if (!written) return tl::unexpected(written.error());
  return lock;
}

std::optional<std::int64_t> unless_zero(std::int64_t value) {
  return value == 0 ? std::nullopt : std::optional(value);
}

}  // namespace

struct Run::Handles {
  std::unique_ptr<Fabric> fabric;
  Fd lock;      // of the folder
  Fd lifeline;  // the launcher ends the job when this pipe closes
  Fd events;    // of the launcher, LauncherEvent records
};

Run::Run(Scenario scenario, std::string folder)
    : scenario_(std::move(scenario)), folder_(std::move(folder)) {
  for (std::int32_t rank = 0; rank < scenario_.world_size; ++rank) {
    ranks_.emplace_back().rank = rank;
  }
}

Run::~Run() {
  if (handles_ != nullptr) stop();
}

Result<std::unique_ptr<Run>> Run::start(const Scenario& scenario, const RunOptions& options) {
  if (auto checked = check(scenario); !checked) return tl::unexpected(checked.error());
  auto home = find_home(options.home);
  if (!home) return tl::unexpected(home.error());
  const std::string folder = std::filesystem::absolute(options.folder).lexically_normal().string();
  auto lock = prepare_folder(scenario, folder);
  if (!lock) return tl::unexpected(lock.error());
  auto lifeline = make_pipe();
  auto events = make_pipe();
  if (!lifeline) return tl::unexpected(lifeline.error());
  if (!events) return tl::unexpected(events.error());
  const Fd log(::open((folder + "/launcher.log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!log.valid()) return fail_errno(errno, "cannot write into " + folder);

  std::unique_ptr<Run> run(new Run(scenario, folder));
  run->handles_ = std::make_unique<Handles>();
  run->handles_->lock = std::move(*lock);
  run->handles_->fabric.reset(Fabric::open(folder, true));
  if (run->handles_->fabric == nullptr) {
    return fail_errno(errno, "cannot map the fabric of " + folder);
  }

  const std::string program = *home + "/rung-sim-launcher";
  std::vector<std::string> arguments{program, folder, options.run_id,
                                     std::to_string(lifeline->read.get()),
                                     std::to_string(events->write.get())};
  std::vector<std::string> variables = job_environment(*home, folder, scenario);
  const std::vector<char*> argv = pointers(arguments), envp = pointers(variables);
  const pid_t child = ::fork();
  if (child < 0) return fail_errno(errno, "cannot fork");
  if (child == 0) {
    become_launcher(program.c_str(), argv.data(), envp.data(), log.get(), lifeline->read.get(),
                    events->write.get());
  }
  ::fcntl(events->read.get(), F_SETFL, O_NONBLOCK);
  run->launcher_ = child;
  run->handles_->lifeline = std::move(lifeline->write);
  run->handles_->events = std::move(events->read);
  return run;
}

void Run::read_events() {
  LauncherEvent event{};
  while (::read(handles_->events.get(), &event, sizeof event) ==
         static_cast<ssize_t>(sizeof event)) {
    if (event.rank < 0 || event.rank >= scenario_.world_size) continue;
    RankStatus& status = ranks_[static_cast<std::size_t>(event.rank)];
    status.pid = event.pid;
    status.running = event.kind == LauncherEvent::kStarted;
    if (event.kind == LauncherEvent::kEnded) status.wait_status = event.wait_status;
  }
}

void Run::read_board() {
  for (RankStatus& status : ranks_) {
    const RankBoard& board =
        handles_->fabric->header().ranks[static_cast<std::size_t>(status.rank)];
    // A rank may be training before its launcher came to report it.
    if (const pid_t pid = board.pid.load(); status.pid == 0 && pid != 0) {
      status.pid = pid;
      status.running = true;
    }
    status.steps_done = board.steps_done.load();
    status.training_unix_ns = unless_zero(board.training_unix_ns.load());
    status.fault_unix_ns = unless_zero(board.fault_unix_ns.load());
    status.recovered_unix_ns = unless_zero(board.recovered_unix_ns.load());
  }
}

void Run::reap() {
  int status = 0;
  if (launcher_ == 0 || ::waitpid(launcher_, &status, WNOHANG) != launcher_) return;
  launcher_ = 0;
  constexpr int kSignalled = 128;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

bool Run::poll() {
  // Reaping first: what the launcher wrote before its end is then in the pipe.
  reap();
  read_events();
  read_board();
  if (launcher_ != 0) return true;
  for (RankStatus& status : ranks_) status.running = false;
  return false;
}

bool Run::wait(std::chrono::milliseconds limit, const std::function<bool(const Run&)>& done) {
  constexpr std::chrono::milliseconds kPeriod(20);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (poll() && !(done && done(*this))) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPeriod);
  }
  return true;
}

Result<void> Run::signal_rank(std::int32_t rank, int signal) {
  poll();
  if (rank < 0 || rank >= scenario_.world_size) {
    return fail(ErrorCode::kUsage, "no rank " + std::to_string(rank));
  }
  const RankStatus& status = ranks_[static_cast<std::size_t>(rank)];
  if (!status.running) {
    return fail(ErrorCode::kNotFound, "rank " + std::to_string(rank) + " does not run");
  }
  if (::kill(status.pid, signal) != 0) return fail_errno(errno, "cannot signal the rank");
  return {};
}

void Run::stop() {
  handles_->lifeline.reset();
  constexpr std::chrono::seconds kPatience(3);
  if (launcher_ != 0 && !wait(kPatience)) {
    // Its ranks die with it (PR_SET_PDEATHSIG).
    ::kill(launcher_, SIGKILL);
    ::waitpid(launcher_, nullptr, 0);
    launcher_ = 0;
    exit_code_ = 128 + SIGKILL;
    for (RankStatus& status : ranks_) status.running = false;
  }
  handles_->lock.reset();
}

}  // namespace rung::sim
