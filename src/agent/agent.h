// Agent: the node daemon. One thread, one event loop, one tick a second.
#pragma once

#include <memory>
#include <string>

#include "agent/config.h"
#include "base/result.h"

namespace rung {

class Agent {
 public:
  // Opens the sockets and the sources. `executable` is this program; it is started again for vendor
  // workers and the canary. Errors: kUnavailable when another agent is there.
  static Result<std::unique_ptr<Agent>> create(const AgentConfig& config,
                                               const std::string& executable);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Until SIGTERM or SIGINT. Gives the exit code.
  int run();

 private:
  struct Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rung
