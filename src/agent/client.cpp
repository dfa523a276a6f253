#include "agent/client.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cctype>
#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "base/strings.h"

namespace rung {
namespace {

constexpr std::size_t kMaxAnswerBytes = 256u << 20;  // a recording may be in it
constexpr int kAnswerSeconds = 15;

Result<Fd> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return fail(ErrorCode::kUsage, "the socket path must have 1 to 107 bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail_errno(errno, "cannot make a socket");
  const timeval limit{kAnswerSeconds, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EACCES) return fail_errno(errno, "cannot connect to " + path);
    return fail(ErrorCode::kUnavailable,
                fmt::format("no agent answers on {} ({})", path, std::strerror(errno)),
                "start one with 'rung agent', or name its socket with --socket");
  }
  return fd;
}

Result<void> send_all(const Fd& fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::send(fd.get(), text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno(errno, "cannot send to the agent");
    done += static_cast<std::size_t>(put);
  }
  return {};
}

Result<std::string> read_to_end(const Fd& fd) {
  std::string text;
  char chunk[65536];
  while (text.size() < kMaxAnswerBytes) {
    const ssize_t got = ::recv(fd.get(), chunk, sizeof chunk, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "the agent did not answer in time");
    if (got == 0) break;
    text.append(chunk, static_cast<std::size_t>(got));
  }
  return text;
}

std::optional<std::string_view> header(std::string_view head, std::string_view name) {
  for (std::string_view line : split(head, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon != name.size()) continue;
    bool same = true;
    for (std::size_t i = 0; i < colon; ++i) {
      same = same && std::tolower(static_cast<unsigned char>(line[i])) ==
                         std::tolower(static_cast<unsigned char>(name[i]));
    }
    if (same) return trimmed(line.substr(colon + 1));
  }
  return std::nullopt;
}

}  // namespace

Result<AgentAnswer> ask_agent(const std::string& socket, const std::string& target, bool post) {
  const Result<Fd> fd = connect_to(socket);
  if (!fd) return tl::unexpected<Error>(fd.error());
  const std::string request = fmt::format(
      "{} {} HTTP/1.0\r\nHost: rung\r\nContent-Length: 0\r\n\r\n", post ? "POST" : "GET", target);
  if (const auto sent = send_all(*fd, request); !sent) return tl::unexpected<Error>(sent.error());
  const Result<std::string> text = read_to_end(*fd);
  if (!text) return tl::unexpected<Error>(text.error());

  const auto bad = [&] {
    return fail(ErrorCode::kBadInput, "what answers on " + socket + " is no agent",
                "name the agent's socket with --socket");
  };
  const std::size_t end_of_head = text->find("\r\n\r\n");
  if (end_of_head == std::string::npos || !text->starts_with("HTTP/1.")) return bad();
  const std::string_view head = std::string_view(*text).substr(0, end_of_head);
  const auto status = head.size() > 12 ? parse_number<int>(head.substr(9, 3)) : std::nullopt;
  if (!status) return bad();
  AgentAnswer answer;
  answer.status = *status;
  answer.body = text->substr(end_of_head + 4);
  if (const auto code = header(head, "X-Rung-Exit-Code"))
    answer.exit_code = parse_number<int>(*code);
  return answer;
}

std::string query_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned>(byte));
    }
  }
  return out;
}

}  // namespace rung
