// What every command shares: where the agent is, how to print errors, the terminal.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rung::cli {

inline constexpr const char* kDefaultSocket = "/run/rung/agent.sock";

// Options that every command which asks the agent has.
struct AgentOptions {
  std::string socket = kDefaultSocket;  // --socket, else RUNG_SOCKET, else the default
};

// Prints "rung <command>: message (hint: ...)" on stderr; gives the exit code of the error.
int complain(const std::string& command, const Error& error);

// Whether to use colour on stdout: a terminal, and NO_COLOR not set (no-color.org).
bool want_colour();
// Columns of the terminal on stdout; 100 when it is none.
int terminal_width();

// The path of the running executable.
std::string own_executable();

// Asks the agent and prints its answer on stdout, or its complaint on stderr. Gives the exit code.
int print_answer(const std::string& command, const AgentOptions& agent, const std::string& target);

}  // namespace rung::cli
