#include "agent/api.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "export/prometheus.h"
#include "export/status.h"
#include "export/text_options.h"
#include "export/why.h"

namespace rung {
namespace {

constexpr int kBadRequest = 400;
constexpr int kForbidden = 403;
constexpr int kNotFound = 404;
constexpr int kServiceUnavailable = 503;
constexpr const char* kPlain = "text/plain; charset=utf-8";
constexpr double kLongestRecordingSeconds = 3600;

HttpReply refuse(int status, const std::string& message, const std::string& hint, ErrorCode code) {
  HttpReply reply;
  reply.status = status;
  reply.content_type = kPlain;
  reply.body = hint.empty() ? message : fmt::format("{} (hint: {})", message, hint);
  reply.exit_code = exit_code(code);
  return reply;
}

std::string field(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

TextOptions text_options(const HttpRequest& request) {
  TextOptions options;
  options.colour = field(request, "colour") == "1";
  if (const auto width = parse_number<int>(field(request, "width"))) {
    options.width = std::clamp(*width, 40, 400);
  }
  return options;
}

bool wants_text(const HttpRequest& request) { return field(request, "format") == "text"; }

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> out;
  for (const std::string_view part : split(text, ',')) {
    if (!part.empty()) out.emplace_back(part);
  }
  return out;
}

bool contains(const std::vector<JobId>& jobs, const JobId& job) {
  return std::find(jobs.begin(), jobs.end(), job) != jobs.end();
}

HttpReply no_such_job(const std::string& name) {
  return refuse(kNotFound, fmt::format("no job '{}' that you may see", printable(name)),
                "'rung status' lists them", ErrorCode::kNotFound);
}

}  // namespace

std::vector<JobId> jobs_named(const std::vector<JobView>& views, const std::string& name) {
  std::vector<JobId> out;
  for (const JobView& view : views) {
    const bool number = view.job.text.starts_with("slurm:" + name + ".");
    if (name.empty() || view.job.text == name || view.label == name || number) {
      out.push_back(view.job);
    }
  }
  return out;
}

Api::Visible Api::visible(std::uint32_t uid, std::vector<Verdict> verdicts) const {
  Visible out;
  std::vector<JobId> jobs;
  for (const JobView& view : parts_.judge.views()) {
    if (uid != 0 && parts_.judge.table().owner(view.job) != uid) continue;
    out.views.push_back(view);
    jobs.push_back(view.job);
  }
  for (Verdict& verdict : verdicts) {
    if (contains(jobs, verdict.job)) out.verdicts.push_back(std::move(verdict));
  }
  return out;
}

HttpReply Api::local(const HttpRequest& request) const {
  if (!request.uid) {
    return refuse(kForbidden, "the agent could not tell who asks", "", ErrorCode::kNoPermission);
  }
  if (request.path == "/v1/record") {
    return request.post
               ? record(request, *request.uid)
               : refuse(kBadRequest, "a recording is begun by POST", "", ErrorCode::kUsage);
  }
  if (request.path == "/v1/why") return why(request, *request.uid);
  if (request.path == "/v1/status") return status(request, *request.uid);
  if (request.path == "/v1/record/state") return record_state(request, *request.uid);
  if (request.path == "/v1/record/file") return record_file(request, *request.uid);
  if (request.path == "/metrics" && *request.uid == 0) return metrics(request);
  return refuse(kNotFound, "the agent knows no " + printable(request.path),
                "command and agent may be of different versions", ErrorCode::kBadInput);
}

HttpReply Api::metrics(const HttpRequest& request) const {
  if (request.path != "/metrics") {
    return refuse(kNotFound, "only /metrics is served here", "", ErrorCode::kUsage);
  }
  HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = prometheus_text(parts_.judge.views(), parts_.judge.verdicts(), parts_.health(),
                               parts_.devices());
  return reply;
}

HttpReply Api::why(const HttpRequest& request, std::uint32_t uid) const {
  std::vector<Verdict> standing = parts_.judge.verdicts();
  std::vector<std::string> notes;
  if (const std::string at = field(request, "at"); !at.empty()) {
    const auto ns = parse_number<std::int64_t>(at);
    if (!ns) return refuse(kBadRequest, "at is no number of ns", "", ErrorCode::kUsage);
    standing = parts_.judge.verdicts_at(unix_ns(*ns));
    notes.emplace_back("verdicts as they stood then; coverage is that of now");
  }
  Visible seen = visible(uid, std::move(standing));
  const std::string name = field(request, "job");
  const std::vector<JobId> wanted = jobs_named(seen.views, name);
  if (wanted.empty() && !name.empty()) return no_such_job(name);
  std::erase_if(seen.views, [&](const JobView& view) { return !contains(wanted, view.job); });
  std::erase_if(seen.verdicts,
                [&](const Verdict& verdict) { return !contains(wanted, verdict.job); });
  if (seen.views.empty()) notes.emplace_back("no job that uses CUDA is running here");

  HttpReply reply;
  reply.exit_code = why_exit_code(seen.verdicts, list_of(field(request, "fail_on")));
  if (wants_text(request)) {
    reply.content_type = kPlain;
    reply.body = why_text(seen.views, seen.verdicts, notes, text_options(request));
  } else {
    reply.body = why_json(seen.views, seen.verdicts, notes);
  }
  return reply;
}

HttpReply Api::status(const HttpRequest& request, std::uint32_t uid) const {
  const Visible seen = visible(uid, parts_.judge.verdicts());
  HttpReply reply;
  if (wants_text(request)) {
    reply.content_type = kPlain;
    reply.body = status_text(seen.views, seen.verdicts, parts_.health(), text_options(request));
  } else {
    reply.body = status_json(seen.views, seen.verdicts, parts_.health());
  }
  return reply;
}

HttpReply Api::record(const HttpRequest& request, std::uint32_t uid) const {
  double seconds = 0;
  const std::string text = field(request, "seconds");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || !(seconds > 0) ||
      seconds > kLongestRecordingSeconds) {
    return refuse(kBadRequest, "a recording lasts up to an hour", "", ErrorCode::kUsage);
  }
  const Visible seen = visible(uid, {});
  const std::string name = field(request, "job");
  const std::vector<JobId> wanted = jobs_named(seen.views, name);
  if (!name.empty() && wanted.empty()) return no_such_job(name);
  if (wanted.size() > 1 && (uid != 0 || !name.empty())) {
    return refuse(kBadRequest, fmt::format("{} jobs are meant", wanted.size()),
                  "name one by its id; 'rung status' lists them", ErrorCode::kUsage);
  }
  if (uid != 0 && wanted.empty()) return no_such_job(name);
  std::optional<JobId> job;
  if (uid != 0 || !name.empty()) job = wanted.front();
  const auto length = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  const Result<std::uint64_t> id =
      parts_.recordings.begin(parts_.now(), length, job, uid, parts_.judge);
  if (!id) {
    return refuse(kServiceUnavailable, id.error().message, id.error().hint, id.error().code);
  }
  HttpReply reply;
  reply.content_type = kPlain;
  reply.body = fmt::format("{}\n", *id);
  return reply;
}

HttpReply Api::record_state(const HttpRequest& request, std::uint32_t uid) const {
  const auto id = parse_number<std::uint64_t>(field(request, "id"));
  const auto status = id ? parts_.recordings.status(*id, uid) : std::nullopt;
  if (!status) return refuse(kNotFound, "no such recording", "", ErrorCode::kNotFound);
  HttpReply reply;
  reply.content_type = kPlain;
  switch (status->state) {
    case Recordings::State::kRecording:
      reply.body = fmt::format("recording {}\n", status->ticks);
      break;
    case Recordings::State::kDone:
      reply.body = fmt::format("done {}\n", status->ticks);
      break;
    case Recordings::State::kFailed:
      reply.body = fmt::format("failed: {}\n", status->error);
      break;
  }
  return reply;
}

HttpReply Api::record_file(const HttpRequest& request, std::uint32_t uid) const {
  const auto id = parse_number<std::uint64_t>(field(request, "id"));
  if (!id) return refuse(kNotFound, "no such recording", "", ErrorCode::kNotFound);
  Result<std::string> bytes = parts_.recordings.fetch(*id, uid);
  if (!bytes) return refuse(kNotFound, bytes.error().message, "", bytes.error().code);
  HttpReply reply;
  reply.content_type = "application/vnd.sqlite3";
  reply.body = std::move(*bytes);
  return reply;
}

}  // namespace rung
