// AgentClient: asks the agent on its local socket. One request per connection.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace rung {

struct AgentAnswer {
  int status = 0;
  std::string body;
  std::optional<int> exit_code;  // what the agent says a command should exit with
};

// Sends GET (or POST) `target`, "/v1/why?format=json", and reads the whole answer.
// Errors: kUnavailable when no agent answers, kBadInput when what answers is no agent.
Result<AgentAnswer> ask_agent(const std::string& socket, const std::string& target,
                              bool post = false);

// `text` fit for a query string.
std::string query_escaped(const std::string& text);

}  // namespace rung
