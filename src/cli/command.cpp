#include "cli/command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "agent/client.h"
#include "base/files.h"

namespace rung::cli {

int complain(const std::string& command, const Error& error) {
  std::string line = fmt::format("rung {}: {}", command, error.message);
  if (!error.hint.empty()) line += fmt::format(" (hint: {})", error.hint);
  fmt::print(stderr, "{}\n", line);
  return exit_code(error.code);
}

bool want_colour() { return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

int terminal_width() {
  winsize size{};
  constexpr int kOtherwise = 100;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kOtherwise;
  return size.ws_col;
}

std::string own_executable() {
  const Result<std::string> path = read_link("/proc/self/exe");
  return path ? *path : "rung";
}

int print_answer(const std::string& command, const AgentOptions& agent, const std::string& target) {
  const Result<AgentAnswer> answer = ask_agent(agent.socket, target);
  if (!answer) return complain(command, answer.error());
  constexpr int kOk = 200;
  if (answer->status != kOk) {
    fmt::print(stderr, "rung {}: {}\n", command, answer->body);
    return answer->exit_code.value_or(exit_code(ErrorCode::kUnavailable));
  }
  std::fwrite(answer->body.data(), 1, answer->body.size(), stdout);
  return answer->exit_code.value_or(0);
}

}  // namespace rung::cli
