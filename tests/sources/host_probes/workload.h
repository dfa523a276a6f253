// Workload: drives fixtures/probe_workload.cpp, and small helpers to read what the probes say.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "sources/host_probes/host_probes.h"
#include "sources/host_probes/process_view.h"

namespace rung {

inline std::string fixture(const std::string& name) {
  return std::string(RUNG_PROBE_FIXTURES) + "/" + name;
}

class Workload {
 public:
  Workload() {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return;
    const std::string program = fixture("probe_workload");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      execl(program.c_str(), "probe_workload", static_cast<char*>(nullptr));
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = fdopen(in[1], "w");
    from_ = fdopen(out[0], "r");
    EXPECT_EQ(answer(), "ready");
  }
  ~Workload() {
    if (pid_ > 0 && !reaped_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (to_ != nullptr) fclose(to_);
    if (from_ != nullptr) fclose(from_);
  }
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  // Sends a line and waits until it is done.
  void tell(const std::string& line) {
    send(line);
    EXPECT_EQ(answer(), "ok") << line;
  }
  // Sends a line and waits for the process's end.
  void end(const std::string& line) {
    send(line);
    waitpid(pid_, nullptr, 0);
    reaped_ = true;
  }
  void send(const std::string& line) {
    std::fputs((line + "\n").c_str(), to_);
    std::fflush(to_);
  }
  std::string answer() {
    char line[256];
    if (std::fgets(line, sizeof line, from_) == nullptr) return "";
    std::string text = line;
    text.pop_back();
    return text;
  }
  int pid() const { return pid_; }
  ProcessKey key() const { return {1, pid_, start_ticks_of("", pid_).value_or(0)}; }

 private:
  pid_t pid_ = -1;
  bool reaped_ = false;
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
};

// An observation of one process and type.
template <class What>
std::vector<What> of(const std::vector<Observation>& all, const ProcessKey& process) {
  std::vector<What> out;
  for (const Observation& one : all) {
    const What* what = std::get_if<What>(&one.what);
    if (what != nullptr && one.from.process == process) out.push_back(*what);
  }
  return out;
}

// The counts of a class in the last HostCallStats.
inline HostCallStats::Class counted(const std::vector<Observation>& all, const ProcessKey& process,
                                    CallClass call) {
  const auto stats = of<HostCallStats>(all, process);
  if (!stats.empty()) {
    for (const auto& row : stats.back().classes) {
      if (row.call == call) return row;
    }
  }
  return {call, 0, 0};
}

// Probes with defaults that suit tests; skips the test visibly where the host cannot have them.
class HostProbesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const HostProbeAbility ability = probe_ability();
    if (!ability.possible) GTEST_SKIP() << ability.message << "; " << ability.hint;
    config_.canary_executable = fixture("probe_workload");
    config_.accepted = {{RUNG_PROBE_KNOWN_ID, "2.28.9"}};
  }

  void open() {
    auto opened = HostProbes::open(config_);
    ASSERT_TRUE(opened) << opened.error().message;
    probes_ = std::move(*opened);
  }
  void watch(const Workload& workload) {
    const auto watched = probes_->watch(workload.key(), workload.pid());
    ASSERT_TRUE(watched) << watched.error().message;
  }
  std::vector<Observation> drain() {
    std::vector<Observation> out;
    probes_->drain(unix_ns(unix_now_ns()), out);
    return out;
  }
  RungCoverage coverage(const Workload& workload) const {
    return probes_->coverage(workload.key(), unix_ns(1)).front();
  }

  HostProbesConfig config_;
  std::unique_ptr<HostProbes> probes_;
};

}  // namespace rung
