// LiveAgent: a real `rung agent` process with its own socket in a temporary folder.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "agent/client.h"
#include "rung_sim/identity.h"
#include "rung_sim/runner.h"

namespace rung::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::string(testing::TempDir()) + "rung-test.XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class LiveAgent {
 public:
  // `sim_folder`: the run folder whose devices the simulated NVML shows. `extra`: more config
  // lines.
  LiveAgent(const std::string& folder, const std::string& sim_folder, const std::string& extra = "")
      : socket_(folder + "/agent.sock"),
        config_(folder + "/agent.toml"),
        log_(folder + "/agent.log") {
    std::ofstream(config_) << "socket = \"" << socket_ << "\"\nstate_dir = \"" << folder
                           << "/state\"\nprometheus_listen = \"\"\n"
                           << extra << "[host]\naccepted_nccl = [{ build_id = \""
                           << sim::kNcclBuildId << "\", layout = \"" << sim::kNcclVersion
                           << "\" }]\n[nvml]\nlibrary = \"" << sim::nvml_library().value_or("")
                           << "\"\n";
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setenv("RUNG_SIM_DIR", sim_folder.c_str(), 1);
      FILE* out = ::freopen(log_.c_str(), "a", stdout);
      if (out != nullptr) ::dup2(STDOUT_FILENO, STDERR_FILENO);
      ::execl(RUNG_BINARY, RUNG_BINARY, "agent", "--config", config_.c_str(), nullptr);
      ::_exit(127);
    }
  }
  ~LiveAgent() { stop(SIGTERM); }
  LiveAgent(const LiveAgent&) = delete;
  LiveAgent& operator=(const LiveAgent&) = delete;

  bool await_ready(std::chrono::seconds limit = std::chrono::seconds(20)) const {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < until) {
      if (ask_agent(socket_, "/v1/status")) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  std::string get(const std::string& target) const {
    const Result<AgentAnswer> answer = ask_agent(socket_, target);
    return answer ? answer->body : "";
  }
  std::string why() const { return get("/v1/why?format=json"); }

  // Gives the wait status; -1 when it was stopped before.
  int stop(int signal) {
    if (pid_ <= 0) return -1;
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

  std::string log() const {
    std::ifstream file(log_);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  pid_t pid() const { return pid_; }
  const std::string& socket() const { return socket_; }
  const std::string& config() const { return config_; }

 private:
  std::string socket_;
  std::string config_;
  std::string log_;
  pid_t pid_ = -1;
};

}  // namespace rung::test
