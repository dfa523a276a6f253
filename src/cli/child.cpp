#include "cli/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

extern char** environ;

namespace rung::cli {
namespace {

constexpr std::chrono::milliseconds kPoll{20};
constexpr std::chrono::seconds kPatience{5};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<void> ChildProcess::start(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment, const std::string& log) {
  std::vector<std::string> words = arguments;
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(variables);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (out < 0) return fail_errno(errno, "cannot open " + log);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  const int reason = errno;
  ::close(out);
  if (pid_ < 0) return fail_errno(reason, "cannot start " + arguments.front());
  return {};
}

bool ChildProcess::running() {
  if (pid_ <= 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

void ChildProcess::stop() {
  if (!running()) return;
  ::kill(pid_, SIGTERM);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (running() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(kPoll);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace rung::cli
