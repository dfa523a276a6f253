// Worker: the state machine of one vendor worker: starting, asking, deadline, kill, restart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sources/nvml/vendor_workers.h"
#include "sources/nvml/wire.h"
#include "sources/nvml/worker_process.h"

namespace rung::vendor {

class Worker {
 public:
  // `device` -1 enumerates. `config` must outlive this.
  Worker(const VendorWorkersConfig& config, int device, std::string uuid);

  // What came of one step.
  struct Step {
    std::optional<Answer> answer;
    bool blocked = false;            // the call that is outstanding passed its deadline just now
    std::optional<double> returned;  // seconds: the device answers again after it was blocked
  };
  // Sends a request unless one is outstanding or no process runs. `now_ns` is monotonic.
  void ask(Ask what, std::int64_t now_ns);
  // Takes an answer, checks deadlines, kills, reaps and restarts. Never waits.
  Step step(std::int64_t now_ns);
  // Starts the process now. Errors: kUnavailable.
  Result<void> start(std::int64_t now_ns);
  void kill();
  bool all_reaped();

  int device() const { return device_; }
  std::string name() const;  // "GPU 3 (GPU-...)", "all"
  int socket() const { return process_ ? process_->socket() : -1; }
  WorkerHealth health(std::int64_t now_ns) const;

 private:
  void end(std::int64_t now_ns);
  void take_answer(std::int64_t now_ns, Step* step);
  void check_deadline(std::int64_t now_ns, Step* step);

  const VendorWorkersConfig& config_;
  int device_;
  std::string uuid_;
  std::optional<WorkerProcess> process_;
  std::vector<WorkerProcess> ended_;  // not yet reaped
  std::uint64_t number_ = 0;
  std::optional<std::int64_t> asked_at_;       // the outstanding call
  std::optional<std::int64_t> blocked_since_;  // until the device answers again
  std::optional<std::int64_t> restart_at_;
  std::int64_t backoff_ns_;
  std::uint64_t restarts_ = 0;
};

}  // namespace rung::vendor
