// WorkerProcess: one helper process and the socket to it. Nothing here waits for the process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "sources/nvml/wire.h"

namespace rung::vendor {

class WorkerProcess {
 public:
  // Runs `executable vendor-worker --fd 3 ARGUMENTS` with RUNG_NVML set to `library` if that is
  // not empty. The child keeps stdin, stdout, stderr and its socket; all other descriptors are
  // closed in it. `device` -1: --enumerate.
  static Result<WorkerProcess> start(const std::string& executable, const std::string& library,
                                     int device);
  WorkerProcess(WorkerProcess&&) = default;
  WorkerProcess& operator=(WorkerProcess&&) = default;

  pid_t pid() const { return pid_; }
  int socket() const { return socket_.get(); }

  // False when the worker is gone.
  bool send(const Request& request);

  enum class Got { kNothing, kAnswer, kGone };
  // Takes one answer if there is one. A malformed one counts as a worker that is gone.
  Got receive(Answer* answer);

  void kill();
  // Whether the process has ended and was reaped. Does not wait.
  bool reaped();

  std::uint64_t resident_bytes() const;  // 0 when it cannot be read

 private:
  WorkerProcess(pid_t pid, Fd socket) : pid_(pid), socket_(std::move(socket)) {}
  pid_t pid_ = -1;
  Fd socket_;
};

}  // namespace rung::vendor
