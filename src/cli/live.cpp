// why, status, record: what the agent is asked.
#include <fmt/format.h>
#include <unistd.h>

#include <fcntl.h>
#include <chrono>
#include <cstdio>
#include <thread>

#include "agent/client.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/moment.h"

namespace rung::cli {
namespace {

std::string view_query(bool json) {
  return fmt::format("format={}&colour={}&width={}", json ? "json" : "text",
                     !json && want_colour() ? 1 : 0, terminal_width());
}

// The id of a new recording on the agent.
Result<std::string> begin_recording(const RecordOptions& options) {
  const Result<AgentAnswer> begun = ask_agent(
      options.agent.socket,
      fmt::format("/v1/record?seconds={}&job={}", options.seconds, query_escaped(options.job)),
      true);
  if (!begun) return tl::unexpected<Error>(begun.error());
  if (begun->status != 200) {
    const bool missing = begun->status == 404;
    const bool forbidden = begun->status == 403;
    return fail(missing     ? ErrorCode::kNotFound
                : forbidden ? ErrorCode::kNoPermission
                            : ErrorCode::kUnavailable,
                begun->body);
  }
  return std::string(trimmed(begun->body));
}

// Waits until the recording is complete; shows how far it is on a terminal.
Result<void> await_recording(const RecordOptions& options, const std::string& id) {
  const bool show = ::isatty(STDERR_FILENO) == 1;
  while (true) {
    const Result<AgentAnswer> state =
        ask_agent(options.agent.socket, "/v1/record/state?id=" + query_escaped(id));
    if (!state) return tl::unexpected<Error>(state.error());
    if (state->status != 200) return fail(ErrorCode::kUnavailable, state->body);
    const auto words = split(trimmed(state->body), ' ');
    if (show) fmt::print(stderr, "\rrecording: {} of {:.0f} s ", words.back(), options.seconds);
    if (words.front() == "done") break;
    if (words.front() == "failed") return fail(ErrorCode::kUnavailable, state->body);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  if (show) fmt::print(stderr, "\r{:40}\r", "");
  return {};
}

Result<void> write_new_file(const std::string& path, const std::string& bytes) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.valid()) return fail_errno(errno, "cannot create " + path, "the file must not exist yet");
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int reason = errno;
      ::unlink(path.c_str());
      return fail_errno(reason, "cannot write " + path);
    }
    done += static_cast<std::size_t>(put);
  }
  return {};
}

}  // namespace

int why(const WhyOptions& options) {
  std::string common = "/v1/why?job=" + query_escaped(options.job);
  if (!options.at.empty()) {
    const Result<std::int64_t> at = parse_moment(options.at, unix_now_ns());
    if (!at) return complain("why", at.error());
    common += fmt::format("&at={}", *at);
  }
  for (const std::string& kind : options.fail_on) common += "&fail_on=" + query_escaped(kind);
  if (!options.save.empty()) {
    const Result<AgentAnswer> answer = ask_agent(options.agent.socket, common + "&format=json");
    if (!answer) return complain("why", answer.error());
    if (answer->status == 200) {
      const Result<void> written = write_file_atomically(options.save, answer->body);
      if (!written) return complain("why", written.error());
    }
  }
  return print_answer("why", options.agent, common + "&" + view_query(options.json));
}

int status(const StatusOptions& options) {
  return print_answer("status", options.agent, "/v1/status?" + view_query(options.json));
}

int record(const RecordOptions& options) {
  if (::access(options.output.c_str(), F_OK) == 0) {
    return complain("record", Error{ErrorCode::kUsage, options.output + " exists already",
                                    "name a file that does not exist"});
  }
  const Result<std::string> id = begin_recording(options);
  if (!id) return complain("record", id.error());
  const Result<void> complete = await_recording(options, *id);
  if (!complete) return complain("record", complete.error());
  const Result<AgentAnswer> file =
      ask_agent(options.agent.socket, "/v1/record/file?id=" + query_escaped(*id));
  if (!file) return complain("record", file.error());
  if (file->status != 200) {
    return complain("record", Error{ErrorCode::kUnavailable, file->body, ""});
  }
  const Result<void> written = write_new_file(options.output, file->body);
  if (!written) return complain("record", written.error());
  fmt::print("{}: {} bytes, {:.0f} s of evidence; see it with 'rung replay {}'\n", options.output,
             file->body.size(), options.seconds, options.output);
  return 0;
}

}  // namespace rung::cli
