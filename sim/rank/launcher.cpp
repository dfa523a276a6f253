// rung-sim-launcher: starts the ranks of a simulated job as torchrun does, watches them, and ends
// them when its parent closes the lifeline.
//
//   rung-sim-launcher FOLDER RUN_ID LIFELINE_FD EVENTS_FD
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/strings.h"
#include "rung_sim/runner.h"
#include "runner/events.h"

namespace rung::sim {
namespace {

constexpr std::int64_t kNever = INT64_MAX;
constexpr std::int64_t kTearDownPatienceNs = 5'000'000'000;

class Launcher {
 public:
  Launcher(Scenario scenario, std::string folder, std::string run_id, int lifeline, int events)
      : scenario_(std::move(scenario)),
        folder_(std::move(folder)),
        run_id_(std::move(run_id)),
        lifeline_(lifeline),
        events_(events) {}

  int run();

 private:
  bool start(std::int32_t rank);
  [[noreturn]] void become_rank(std::int32_t rank, pid_t parent);
  void serve_children();
  void ended(pid_t pid, int wait_status);
  void stopped(pid_t pid);
  void serve_deadlines();
  int poll_timeout_ms() const;
  void kill_all(int signal);
  int finish();

  const Scenario scenario_;
  const std::string folder_;
  const std::string run_id_;
  const int lifeline_;
  const int events_;
  int signals_ = -1;
  std::map<pid_t, std::int32_t> children_;
  std::map<pid_t, std::int64_t> resume_at_ns_;
  std::int64_t kill_at_ns_ = kNever;
  bool failed_ = false;
};

void report(int events, const LauncherEvent& event) {
  if (::write(events, &event, sizeof event) < 0) {
    std::fprintf(stderr, "simulated launcher: the runner no longer listens\n");
  }
}

void Launcher::become_rank(std::int32_t rank, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const std::string text = std::to_string(rank), world = std::to_string(scenario_.world_size);
  for (const auto& [name, value] : {std::pair<const char*, std::string>{"RANK", text},
                                    {"LOCAL_RANK", text},
                                    {"GROUP_RANK", "0"},
                                    {"WORLD_SIZE", world},
                                    {"LOCAL_WORLD_SIZE", world},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", "29500"},
                                    {"TORCHELASTIC_RUN_ID", run_id_},
                                    {"TORCHELASTIC_RESTART_COUNT", "0"}}) {
    ::setenv(name, value.c_str(), 1);
  }
  const std::string log = folder_ + "/rank-" + text + ".log";
  const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(fd, STDOUT_FILENO);
  ::dup2(fd, STDERR_FILENO);
  ::close(fd);
  ::close(lifeline_);
  ::close(events_);
  ::close(signals_);
  const auto self = read_link("/proc/self/exe");
  const std::string home = self ? self->substr(0, self->rfind('/')) : ".";
  const std::string program = home + "/rung-sim-rank", scenario = folder_ + "/scenario.toml";
  ::execl(program.c_str(), "rung-sim-rank", scenario.c_str(), nullptr);
  std::perror("simulated launcher: cannot start rung-sim-rank");
  ::_exit(127);
}

bool Launcher::start(std::int32_t rank) {
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) become_rank(rank, self);
  children_[child] = rank;
  report(events_, {LauncherEvent::kStarted, rank, child, 0});
  return true;
}

void Launcher::ended(pid_t pid, int wait_status) {
  report(events_, {LauncherEvent::kEnded, children_[pid], pid, wait_status});
  std::printf("simulated launcher: rank %d ended, wait status 0x%x\n", children_[pid],
              static_cast<unsigned>(wait_status));
  children_.erase(pid);
  resume_at_ns_.erase(pid);
  if (wait_status == 0) return;
  if (scenario_.tear_down && !failed_) {
    kill_all(SIGTERM);
    kill_at_ns_ = mono_now_ns() + kTearDownPatienceNs;
  }
  failed_ = true;
}

void Launcher::stopped(pid_t pid) {
  for (const Fault& fault : scenario_.faults) {
    const bool mine = fault.kind == Fault::Kind::kStop && fault.rank == children_[pid];
    if (!mine || !fault.for_s) continue;
    resume_at_ns_[pid] = mono_now_ns() + static_cast<std::int64_t>(*fault.for_s * 1e9);
  }
}

void Launcher::serve_children() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
    if (WIFSTOPPED(status)) {
      stopped(pid);
    } else {
      ended(pid, status);
    }
  }
}

void Launcher::serve_deadlines() {
  const std::int64_t now = mono_now_ns();
  if (now >= kill_at_ns_) {
    kill_all(SIGKILL);
    kill_at_ns_ = kNever;
  }
  std::erase_if(resume_at_ns_, [now](const auto& entry) {
    if (now < entry.second) return false;
    ::kill(entry.first, SIGCONT);
    return true;
  });
}

int Launcher::poll_timeout_ms() const {
  std::int64_t next = kill_at_ns_;
  for (const auto& [pid, at] : resume_at_ns_) next = std::min(next, at);
  if (next == kNever) return -1;
  return static_cast<int>(
      std::clamp<std::int64_t>((next - mono_now_ns()) / 1000000 + 1, 0, 3600 * 1000));
}

void Launcher::kill_all(int signal) {
  for (const auto& [pid, rank] : children_) ::kill(pid, signal);
}

int Launcher::finish() {
  kill_all(SIGKILL);
  while (!children_.empty()) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, 0);
    if (pid <= 0) break;
    ended(pid, status);
  }
  constexpr int kTerminated = 128 + SIGTERM;
  return kTerminated;
}

int Launcher::run() {
  sigset_t handled;
  ::sigemptyset(&handled);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&handled, signal);
  ::sigprocmask(SIG_BLOCK, &handled, nullptr);
  signals_ = ::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  for (std::int32_t rank = 0; rank < scenario_.world_size; ++rank) {
    if (!start(rank)) return finish();
  }
  while (!children_.empty()) {
    pollfd watched[] = {{lifeline_, POLLIN, 0}, {signals_, POLLIN, 0}};
    ::poll(watched, 2, poll_timeout_ms());
    signalfd_siginfo signal{};
    bool asked_to_end = watched[0].revents != 0;
    while (::read(signals_, &signal, sizeof signal) > 0) {
      asked_to_end = asked_to_end || signal.ssi_signo != SIGCHLD;
    }
    if (asked_to_end) return finish();
    serve_children();
    serve_deadlines();
  }
  return failed_ ? 1 : 0;
}

}  // namespace
}  // namespace rung::sim

int main(int argc, char** argv) {
  const auto lifeline = argc == 5 ? rung::parse_number<int>(argv[3]) : std::nullopt;
  const auto events = argc == 5 ? rung::parse_number<int>(argv[4]) : std::nullopt;
  if (!lifeline || !events) {
    std::fprintf(stderr, "usage: rung-sim-launcher FOLDER RUN_ID LIFELINE_FD EVENTS_FD\n");
    return 64;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string folder = argv[1];
  auto scenario = rung::sim::load_scenario(folder + "/scenario.toml");
  if (!scenario) {
    std::fprintf(stderr, "simulated launcher: %s\n", scenario.error().message.c_str());
    return rung::exit_code(scenario.error().code);
  }
  ::fcntl(*lifeline, F_SETFD, FD_CLOEXEC);
  ::fcntl(*events, F_SETFD, FD_CLOEXEC);
  return rung::sim::Launcher(std::move(*scenario), folder, argv[2], *lifeline, *events).run();
}
