// What the host probes cost: nanoseconds a hit by the kind of instruction that is probed, as a
// comparison of whole processes with and without probes in turn; and how long it takes to put all
// probes on, and off again, where 128 processes map the file.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "sources/host_probes/ability.h"
#include "sources/host_probes/elf_symbols.h"
#include "sources/host_probes/probe_link.h"
#include "sources/host_probes/probe_programs.h"
#include "sources/host_probes/prologue.h"

#define BENCH_FUNCTION(name, body)                                                         \
  asm(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" body "\nret\n"); \
  extern "C" void name();

BENCH_FUNCTION(bench_push, "push %rbx\npop %rbx")
BENCH_FUNCTION(bench_nop5, ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00")
BENCH_FUNCTION(bench_endbr, "endbr64\npush %rbx\npop %rbx")
BENCH_FUNCTION(bench_stepped, "sub $8, %rsp\nadd $8, %rsp")

// 150 functions: as many as all probes of libcuda and libnccl together.
asm(".text\n.altmacro\n.macro bench_one n\n.globl bench_many_\\n\n"
    ".type bench_many_\\n, @function\nbench_many_\\n: push %rbx\npop %rbx\nret\n.endm\n"
    ".set i, 0\n.rept 150\nbench_one %i\n.set i, i + 1\n.endr\n.noaltmacro\n");

namespace {

using namespace rung;

constexpr int kCalls = 200000;
constexpr int kRounds = 5;
constexpr int kProcesses = 128;
constexpr int kMany = 150;
constexpr std::uint32_t kLink = 1;

struct Case {
  const char* name;
  void (*function)();
  const char* kind;
};
constexpr Case kCases[] = {{"bench_push", bench_push, "push"},
                           {"bench_nop5", bench_nop5, "nop5"},
                           {"bench_endbr", bench_endbr, "endbr64+4"},
                           {"bench_stepped", bench_stepped, "single-stepped"}};

// Runs the calls in a process of its own, as a watched one where `programs` is given; ns a call.
double child_ns(void (*function)(), ProbePrograms* programs) {
  int go[2], result[2];
  if (pipe2(go, O_CLOEXEC) != 0 || pipe2(result, O_CLOEXEC) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    std::int64_t took = 0;
    if (read(go[0], &byte, 1) == 1) {
      const std::int64_t begin = mono_now_ns();
      for (int i = 0; i < kCalls; ++i) function();
      took = mono_now_ns() - begin;
    }
    _exit(write(result[1], &took, sizeof took) == sizeof took ? 0 : 1);
  }
  if (programs != nullptr) {
    rung_process entry{};
    entry.links[0] = kLink;
    if (!programs->set_process(static_cast<std::uint32_t>(child), entry)) return 0;
  }
  std::int64_t took = 0;
  if (write(go[1], "g", 1) != 1 || read(result[0], &took, sizeof took) != sizeof took) took = 0;
  waitpid(child, nullptr, 0);
  if (programs != nullptr) programs->erase_process(static_cast<std::uint32_t>(child));
  for (const int fd : {go[0], go[1], result[0], result[1]}) close(fd);
  return static_cast<double>(took) / kCalls;
}

std::vector<ProbeTarget> targets_of(const std::vector<std::string>& names) {
  const Fd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto found = find_functions(self.get(), views);
  std::vector<ProbeTarget> out;
  if (!found) return out;
  for (const ElfFunction& function : found->found) {
    const auto point = classify_prologue({function.code.data(), function.code_bytes}, true);
    out.push_back({function.file_offset + point.skip, RUNG_COOKIE(0, 0, kLink)});
  }
  return out;
}

void compare_kinds(ProbePrograms& programs, bool multi) {
  std::printf("%-16s %14s %14s %14s\n", "first instr.", "without ns", "with ns", "ns a hit");
  for (const Case& one : kCases) {
    double without = 1e18, with = 1e18;
    for (int round = 0; round < kRounds; ++round) {
      without = std::min(without, child_ns(one.function, nullptr));
      auto links =
          attach_probes(programs.cuda_program(), multi, "/proc/self/exe", targets_of({one.name}));
      if (!links) {
        std::printf("%-16s %s\n", one.kind, links.error().message.c_str());
        break;
      }
      with = std::min(with, child_ns(one.function, &programs));
    }
    std::printf("%-16s %14.1f %14.1f %14.1f\n", one.kind, without, with, with - without);
  }
}

std::vector<pid_t> sleepers() {
  std::vector<pid_t> out;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
    out.push_back(child);
  }
  return out;
}

void time_attaching(ProbePrograms& programs, bool multi) {
  std::vector<std::string> names;
  for (int i = 0; i < kMany; ++i) names.push_back(fmt::format("bench_many_{}", i));
  const auto targets = targets_of(names);
  const std::int64_t begin = mono_now_ns();
  auto links = attach_probes(programs.cuda_program(), multi, "/proc/self/exe", targets);
  const std::int64_t attached = mono_now_ns();
  if (!links) {
    std::printf("%s\n", links.error().message.c_str());
    return;
  }
  const std::size_t count = links->links.size();
  links->links.clear();
  const std::int64_t detached = mono_now_ns();
  std::printf("%-16s %14zu %14zu %14.1f %14.1f\n", multi ? "multi link" : "perf events",
              targets.size(), count, static_cast<double>(attached - begin) / 1e6,
              static_cast<double>(detached - attached) / 1e6);
}

}  // namespace

int main() {
  const HostProbeAbility ability = probe_ability();
  if (!ability.possible) {
    std::printf("%s\n%s\n", ability.message.c_str(), ability.hint.c_str());
    return 77;
  }
  std::printf("%d calls in a process of their own, least of %d rounds\n", kCalls, kRounds);
  const std::vector<pid_t> processes = sleepers();
  bool headed = false;
  for (const bool multi : {true, false}) {
    if (multi && !ability.uprobe_multi) continue;
    ProbePrograms::Options options;
    options.multi = multi;
    auto programs = ProbePrograms::load(options);
    if (!programs) {
      std::printf("%s\n", programs.error().message.c_str());
      return 1;
    }
    if (!headed) {
      compare_kinds(**programs, multi);
      std::printf("\n%d processes map the file\n%-16s %14s %14s %14s %14s\n", kProcesses, "kind",
                  "functions", "links", "attach ms", "detach ms");
      headed = true;
    }
    time_attaching(**programs, multi);
  }
  for (const pid_t pid : processes) kill(pid, SIGKILL);
  for (const pid_t pid : processes) waitpid(pid, nullptr, 0);
  return 0;
}
