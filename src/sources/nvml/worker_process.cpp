#include "sources/nvml/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/strings.h"

extern char** environ;

namespace rung::vendor {
namespace {

constexpr int kChildSocket = 3;

std::vector<char*> pointers_to(std::vector<std::string>* texts) {
  std::vector<char*> out;
  for (std::string& text : *texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> child_environment(const std::string& library) {
  constexpr std::string_view kName = "RUNG_NVML=";
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (library.empty() || !std::string_view(*entry).starts_with(kName)) out.emplace_back(*entry);
  }
  if (!library.empty()) out.push_back(std::string(kName) + library);
  return out;
}

// In the child of a process with threads: only async-signal-safe calls until exec.
void become_worker(const char* executable, int socket, char* const* argv, char* const* envp) {
  if (socket == kChildSocket) {
    ::fcntl(socket, F_SETFD, 0);
  } else if (::dup2(socket, kChildSocket) < 0) {
    ::_exit(127);
  }
  if (::syscall(SYS_close_range, kChildSocket + 1, ~0U, 0) != 0) {  // before Linux 5.9
    rlimit limit{};
    constexpr rlim_t kMost = 65536;
    const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
    const int end = static_cast<int>(known ? std::min(limit.rlim_cur, kMost) : kMost);
    for (int fd = kChildSocket + 1; fd < end; ++fd) ::close(fd);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(executable, argv, envp);
  ::_exit(127);
}

}  // namespace

Result<WorkerProcess> WorkerProcess::start(const std::string& executable,
                                           const std::string& library, int device) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail_errno(errno, "cannot make a socket pair");
  }
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  std::vector<std::string> args = {"rung", "vendor-worker", "--fd", std::to_string(kChildSocket)};
  if (device < 0) {
    args.emplace_back("--enumerate");
  } else {
    args.insert(args.end(), {"--device", std::to_string(device)});
  }
  std::vector<std::string> env = child_environment(library);
  const std::vector<char*> argv = pointers_to(&args);
  const std::vector<char*> envp = pointers_to(&env);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno(errno, "cannot start a vendor worker");
  if (pid == 0) become_worker(executable.c_str(), theirs.get(), argv.data(), envp.data());
  return WorkerProcess(pid, std::move(ours));
}

bool WorkerProcess::send(const Request& request) {
  const ssize_t put = ::send(socket_.get(), &request, sizeof request, MSG_DONTWAIT | MSG_NOSIGNAL);
  return put == static_cast<ssize_t>(sizeof request);
}

WorkerProcess::Got WorkerProcess::receive(Answer* answer) {
  // One byte more than an answer, so that a longer one shows.
  const auto bytes = std::make_unique<std::byte[]>(sizeof(Answer) + 1);
  const ssize_t got = ::recv(socket_.get(), bytes.get(), sizeof(Answer) + 1, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Got::kNothing;
  if (got <= 0) return Got::kGone;
  const auto checked = checked_answer(bytes.get(), static_cast<std::size_t>(got));
  if (!checked) return Got::kGone;
  *answer = *checked;
  return Got::kAnswer;
}

void WorkerProcess::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
  socket_.reset();
}

bool WorkerProcess::reaped() {
  if (pid_ <= 0) return true;
  const pid_t ended = ::waitpid(pid_, nullptr, WNOHANG);
  // ECHILD: somebody else reaped it.
  if (ended != pid_ && !(ended < 0 && errno == ECHILD)) return false;
  pid_ = -1;
  return true;
}

std::uint64_t WorkerProcess::resident_bytes() const {
  const auto text = read_file(fmt::format("/proc/{}/statm", pid_), 256);
  if (!text) return 0;
  const auto fields = split(*text, ' ');
  const auto pages = fields.size() > 1 ? parse_number<std::uint64_t>(fields[1]) : std::nullopt;
  return pages.value_or(0) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace rung::vendor
