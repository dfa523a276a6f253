// ChildProcess: a child that is ended and reaped with its owner.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rung::cli {

class ChildProcess {
 public:
  ChildProcess() = default;
  ~ChildProcess() { stop(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Runs `arguments` (the first is the program) with `environment` added, stdout and stderr going
  // to `log`. The child dies with this process.
  Result<void> start(const std::vector<std::string>& arguments,
                     const std::vector<std::pair<std::string, std::string>>& environment,
                     const std::string& log);
  bool running();
  pid_t pid() const { return pid_; }
  // SIGTERM, then SIGKILL after five seconds; reaps. Idempotent.
  void stop();

 private:
  pid_t pid_ = -1;
};

}  // namespace rung::cli
