// Recordings: the recordings that are being made for callers, and those that wait to be fetched.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/judge.h"
#include "base/result.h"
#include "store/recording.h"

namespace rung {

class Recordings {
 public:
  static constexpr std::size_t kAtOnce = 4;
  static constexpr std::chrono::minutes kKeptForFetching{10};

  // Files lie in `folder`, which is made when the first one begins.
  explicit Recordings(std::string folder) : folder_(std::move(folder)) {}
  ~Recordings();
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;

  // Begins with everything that is known now. `job`: only what belongs to it (and devices).
  // Errors: kUnavailable when too many are under way or the disk refuses.
  Result<std::uint64_t> begin(UnixNs now, std::chrono::nanoseconds length,
                              const std::optional<JobId>& job, std::uint32_t uid,
                              const Judge& judge);

  // One tick's observations, in the order in which they were absorbed, and what was made of them.
  void tick(UnixNs now, const std::vector<Observation>& observations, const Judge& judge);

  enum class State : std::uint8_t { kRecording, kDone, kFailed };
  struct Status {
    State state = State::kRecording;
    std::uint64_t ticks = 0;
    std::string error;
  };
  // Of a recording that `uid` may see (its own; root all).
  std::optional<Status> status(std::uint64_t id, std::uint32_t uid) const;
  // The bytes of a complete recording; it is removed here.
  Result<std::string> fetch(std::uint64_t id, std::uint32_t uid);

 private:
  struct Entry {
    std::string path;
    UnixNs until{};
    std::optional<JobId> job;
    std::uint32_t uid = 0;
    Status status;
    std::unique_ptr<RecordingWriter> writer;
  };
  void close(Entry& entry);
  const Entry* find(std::uint64_t id, std::uint32_t uid) const;

  std::string folder_;
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t next_id_ = 1;
};

}  // namespace rung
