#include "sources/host_probes/canary.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/strings.h"

extern char** environ;

// The probed function: adds one to *counter. Its first instruction is a push, as in libcuda.
extern "C" void rung_canary_call(std::uint64_t* counter);
#if defined(__x86_64__)
extern "C" [[gnu::naked, gnu::noinline, gnu::used]] void rung_canary_call(std::uint64_t*) {
  asm volatile(
      "pushq %rbx\n\t"
      "incq (%rdi)\n\t"
      "popq %rbx\n\t"
      "retq");
}
#else
extern "C" [[gnu::noinline, gnu::used]] void rung_canary_call(std::uint64_t* counter) {
  ++*counter;
}
#endif

namespace rung {
namespace {

constexpr int kThreads = 4;
constexpr std::uint64_t kCalls = 20000;
constexpr int kPatienceMs = 10000;  // a canary needs milliseconds; under a sanitizer some seconds
constexpr int kCalibrationRounds = 3;

// ---- inside the canary ----

struct Place {
  std::uintptr_t address = 0;
  std::optional<std::uint64_t> file_offset;
};

int find_segment(dl_phdr_info* info, std::size_t, void* context) {
  auto* place = static_cast<Place*>(context);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type != PT_LOAD || place->address < begin ||
        place->address - begin >= header.p_filesz) {
      continue;
    }
    place->file_offset = header.p_offset + (place->address - begin);
    return 1;
  }
  return 0;
}

int print_place() {
  Place place{reinterpret_cast<std::uintptr_t>(&rung_canary_call), std::nullopt};
  dl_iterate_phdr(find_segment, &place);
  if (!place.file_offset) return 1;
  std::printf("%llu\n", static_cast<unsigned long long>(*place.file_offset));
  return std::fflush(stdout) == 0 ? 0 : 1;
}

// From here on every system call but exit kills the process.
bool forbid_system_calls() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{std::size(filter), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct Loop {
  std::uint64_t calls = 0;
  std::uint64_t counter = 0;
};

void* run_loop(void* context) {
  auto* loop = static_cast<Loop*>(context);
  for (std::uint64_t i = 0; i < loop->calls; ++i) rung_canary_call(&loop->counter);
  return nullptr;
}

int call_plainly(std::uint64_t calls) {
  Loop loop{calls, 0};
  const std::int64_t begin = mono_now_ns();
  run_loop(&loop);
  const std::int64_t took = mono_now_ns() - begin;
  std::printf("%lld\n", static_cast<long long>(took));
  std::fflush(stdout);
  return loop.counter == calls ? 0 : 1;
}

int call_under_seccomp(std::uint64_t calls) {
  if (!forbid_system_calls()) return 2;
  Loop loop{calls, 0};
  run_loop(&loop);
  syscall(SYS_exit_group, loop.counter == calls ? 0 : 1);
  return 1;
}

int call_in_threads(std::uint64_t calls) {
  std::array<Loop, kThreads> loops;
  std::array<pthread_t, kThreads> threads;
  for (int i = 0; i < kThreads; ++i) {
    loops[static_cast<std::size_t>(i)] = Loop{calls, 0};
    if (pthread_create(&threads[static_cast<std::size_t>(i)], nullptr, run_loop,
                       &loops[static_cast<std::size_t>(i)]) != 0) {
      return 2;
    }
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  return std::all_of(loops.begin(), loops.end(),
                     [calls](const Loop& loop) { return loop.counter == calls; })
             ? 0
             : 1;
}

int call_and_exec(std::uint64_t calls) {
  Loop loop{calls, 0};
  run_loop(&loop);
  if (loop.counter != calls) return 1;
  std::string count = std::to_string(calls);
  std::string program = "rung", command = "canary", mode = "plain-now";
  char* arguments[] = {program.data(), command.data(), mode.data(), count.data(), nullptr};
  execv("/proc/self/exe", arguments);
  return 2;
}

bool wait_for_go() {
  char byte = 0;
  return write(STDOUT_FILENO, "ready\n", 6) == 6 && read(STDIN_FILENO, &byte, 1) == 1;
}

// ---- outside ----

struct Child {
  int pid = 0;
  Fd input;   // to the canary
  Fd output;  // from it
};

std::optional<Child> start(const std::string& executable, std::string mode, std::uint64_t calls) {
  int in[2], out[2];
  // A socket, because sending to a dead canary must not raise SIGPIPE.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) return std::nullopt;
  Fd in_read(in[0]), in_write(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0) return std::nullopt;
  Fd out_read(out[0]), out_write(out[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in_read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out_write.get(), STDOUT_FILENO);
  std::string program = "rung", command = "canary", count = std::to_string(calls);
  char* arguments[] = {program.data(), command.data(), mode.data(), count.data(), nullptr};
  Child child;
  const int error =
      posix_spawn(&child.pid, executable.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::nullopt;
  child.input = std::move(in_write);
  child.output = std::move(out_read);
  return child;
}

// One line of the canary's output without its end, or nothing when it ended or took too long.
std::optional<std::string> read_line(const Child& child) {
  std::string line;
  while (line.size() < 64) {
    pollfd ready{child.output.get(), POLLIN, 0};
    if (poll(&ready, 1, kPatienceMs) <= 0) return std::nullopt;
    char byte = 0;
    if (read(child.output.get(), &byte, 1) != 1) return std::nullopt;
    if (byte == '\n') return line;
    line.push_back(byte);
  }
  return std::nullopt;
}

// Waits for the end of the canary; a canary that does not end is killed. "" when it exited with 0.
std::string finish(Child& child) {
  child.input.reset();
  const std::int64_t deadline = mono_now_ns() + std::int64_t{kPatienceMs} * 1000000;
  int status = 0;
  bool killed = false;
  for (;;) {
    const pid_t got = waitpid(child.pid, &status, killed ? 0 : WNOHANG);
    if (got == child.pid) break;
    if (got < 0 && errno != EINTR) return "its end could not be seen";
    if (got == 0 && mono_now_ns() > deadline) {
      kill(child.pid, SIGKILL);
      killed = true;
      continue;
    }
    if (got == 0) poll(nullptr, 0, 1);
  }
  if (killed) return "it did not end";
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("exit code {}", WEXITSTATUS(status));
  return "";
}

std::optional<std::uint64_t> place_in(const std::string& executable) {
  auto child = start(executable, "where", 0);
  if (!child) return std::nullopt;
  const auto line = read_line(*child);
  const std::string end = finish(*child);
  if (!line || !end.empty()) return std::nullopt;
  return parse_number<std::uint64_t>(*line);
}

struct Run {
  std::string problem;  // "" when it passed
  std::optional<std::int64_t> took_ns;
};

Run run_mode(const std::string& executable, const std::string& mode, std::uint64_t offset,
             const CanaryProbe* probe) {
  auto child = start(executable, mode, kCalls);
  if (!child) return {"it could not be started", std::nullopt};
  Run run;
  std::function<void()> detach;
  if (read_line(*child) != "ready") {
    run.problem = "it never became ready";
  } else if (probe != nullptr) {
    auto attached = probe->attach(child->pid, offset);
    if (attached) {
      detach = std::move(*attached);
    } else {
      run.problem = attached.error().message;
    }
  }
  if (run.problem.empty() && send(child->input.get(), "g", 1, MSG_NOSIGNAL) == 1 &&
      mode == "plain") {
    const auto line = read_line(*child);
    if (line) run.took_ns = parse_number<std::int64_t>(*line);
  }
  const std::string end = finish(*child);
  if (run.problem.empty()) run.problem = end;
  if (detach) detach();
  return run;
}

// The least of a few runs: everything else on the host only ever adds.
std::optional<double> ns_per_call(const std::string& executable, std::uint64_t offset,
                                  const CanaryProbe* probe) {
  std::optional<std::int64_t> least;
  for (int i = 0; i < kCalibrationRounds; ++i) {
    const Run run = run_mode(executable, "plain", offset, probe);
    if (run.took_ns && (!least || *run.took_ns < *least)) least = run.took_ns;
  }
  if (!least) return std::nullopt;
  return static_cast<double>(*least) / static_cast<double>(kCalls);
}

}  // namespace

int canary_main(int argc, char** argv) {
  if (argc < 1) return 64;
  const std::string_view mode = argv[0];
  if (mode == "where") return print_place();
  const auto calls = argc > 1 ? parse_number<std::uint64_t>(argv[1]) : std::nullopt;
  if (!calls) return 64;
  if (mode == "plain-now") return call_plainly(*calls);
  // A canary outlives nobody: it ends when who started it does.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!wait_for_go()) return 3;
  if (mode == "plain") return call_plainly(*calls);
  if (mode == "seccomp") return call_under_seccomp(*calls);
  if (mode == "threads") return call_in_threads(*calls);
  if (mode == "exec") return call_and_exec(*calls);
  return 64;
}

CanaryResult run_canary(const std::string& executable, const std::vector<CanaryProbe>& probes) {
  CanaryResult result;
  const auto offset = place_in(executable);
  if (!offset) {
    result.modes.push_back({"where", false, "it does not answer 'canary where'"});
    return result;
  }
  result.passed = true;
  for (const CanaryProbe& probe : probes) {
    for (const char* mode : {"plain", "seccomp", "threads", "exec"}) {
      const Run run = run_mode(executable, mode, *offset, &probe);
      result.modes.push_back(
          {fmt::format("{}/{}", mode, probe.name), run.problem.empty(), run.problem});
      result.passed = result.passed && run.problem.empty();
    }
  }
  if (!result.passed || probes.empty()) return result;
  const auto without = ns_per_call(executable, *offset, nullptr);
  const auto with = ns_per_call(executable, *offset, &probes.front());
  if (!without || !with) {
    result.passed = false;
    result.modes.push_back({"calibration", false, "no time came back"});
    return result;
  }
  result.cost_ns = std::max(*with - *without, 1.0);
  return result;
}

}  // namespace rung
