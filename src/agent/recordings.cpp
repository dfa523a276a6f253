#include "agent/recordings.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "base/version.h"

namespace rung {
namespace {

constexpr std::size_t kMaxFileBytes = 256u << 20;

bool belongs(const Observation& observation, const std::optional<JobId>& job, const Judge& judge) {
  if (!job || observation.from.process.pid == 0) return true;
  const JobId* owner = judge.table().job_of(observation.from.process);
  return owner != nullptr && *owner == *job;
}

std::vector<Verdict> verdicts_of(const std::optional<JobId>& job, const Judge& judge) {
  std::vector<Verdict> out;
  for (const Verdict& verdict : judge.verdicts()) {
    if (!job || verdict.job == *job) out.push_back(verdict);
  }
  return out;
}

Result<void> write_snapshot(RecordingWriter& writer, UnixNs now, const std::optional<JobId>& job,
                            const Judge& judge) {
  for (const Observation& observation : judge.table().snapshot(now, job)) {
    if (const auto added = writer.add(observation); !added) return added;
  }
  return writer.end_tick(now, verdicts_of(job, judge));
}

void remove_files(const std::string& path) {
  ::unlink(path.c_str());
  ::unlink((path + "-wal").c_str());
}

}  // namespace

Recordings::~Recordings() {
  for (auto& [id, entry] : entries_) {
    entry.writer.reset();
    remove_files(entry.path);
  }
}

Result<std::uint64_t> Recordings::begin(UnixNs now, std::chrono::nanoseconds length,
                                        const std::optional<JobId>& job, std::uint32_t uid,
                                        const Judge& judge) {
  const auto active = std::count_if(entries_.begin(), entries_.end(), [](const auto& entry) {
    return entry.second.status.state == State::kRecording;
  });
  if (static_cast<std::size_t>(active) >= kAtOnce) {
    return fail(ErrorCode::kUnavailable, fmt::format("{} recordings are under way already", active),
                "wait for one to end");
  }
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail_errno(errno, "cannot make the folder " + folder_, "see the key 'state_dir'");
  }
  Entry entry;
  entry.path = fmt::format("{}/{}-{}.rung", folder_, ns_of(now), next_id_);
  entry.until = now + length;
  entry.job = job;
  entry.uid = uid;
  RecordingMeta meta;
  meta.created = now;
  meta.rung_version = kVersion;
  if (job) meta.job = job->text;
  Result<std::unique_ptr<RecordingWriter>> writer = RecordingWriter::create(entry.path, meta);
  if (!writer) return tl::unexpected<Error>(writer.error());
  entry.writer = std::move(*writer);
  if (const auto begun = write_snapshot(*entry.writer, now, job, judge); !begun) {
    entry.writer.reset();
    remove_files(entry.path);
    return tl::unexpected<Error>(begun.error());
  }
  const std::uint64_t id = next_id_++;
  entries_.emplace(id, std::move(entry));
  return id;
}

void Recordings::tick(UnixNs now, const std::vector<Observation>& observations,
                      const Judge& judge) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    Entry& recording = entry->second;
    if (recording.status.state != State::kRecording) {
      const bool forgotten = recording.until + kKeptForFetching < now;
      if (forgotten) remove_files(recording.path);
      entry = forgotten ? entries_.erase(entry) : std::next(entry);
      continue;
    }
    Result<void> written;
    for (const Observation& observation : observations) {
      if (written && belongs(observation, recording.job, judge)) {
        written = recording.writer->add(observation);
      }
    }
    if (written) written = recording.writer->end_tick(now, verdicts_of(recording.job, judge));
    ++recording.status.ticks;
    if (!written) {
      recording.status = {State::kFailed, recording.status.ticks, written.error().message};
      recording.writer.reset();
    } else if (now >= recording.until) {
      close(recording);
    }
    ++entry;
  }
}

void Recordings::close(Entry& entry) {
  const Result<void> finished = entry.writer->finish();
  entry.writer.reset();
  entry.status.state = finished ? State::kDone : State::kFailed;
  if (!finished) entry.status.error = finished.error().message;
}

const Recordings::Entry* Recordings::find(std::uint64_t id, std::uint32_t uid) const {
  const auto found = entries_.find(id);
  if (found == entries_.end() || (uid != 0 && found->second.uid != uid)) return nullptr;
  return &found->second;
}

std::optional<Recordings::Status> Recordings::status(std::uint64_t id, std::uint32_t uid) const {
  const Entry* entry = find(id, uid);
  return entry == nullptr ? std::nullopt : std::optional<Status>(entry->status);
}

Result<std::string> Recordings::fetch(std::uint64_t id, std::uint32_t uid) {
  const Entry* entry = find(id, uid);
  if (entry == nullptr) return fail(ErrorCode::kNotFound, "no such recording");
  if (entry->status.state != State::kDone) {
    return fail(ErrorCode::kUnavailable, "the recording is not complete");
  }
  Result<std::string> bytes = read_file(entry->path, kMaxFileBytes);
  ::unlink(entry->path.c_str());
  entries_.erase(id);
  return bytes;
}

}  // namespace rung
