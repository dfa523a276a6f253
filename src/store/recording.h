// Recordings: the evidence of a time span in one SQLite file, written tick by tick and read back as
// the same observations in the same order. The format is described in docs/recording.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/observation.h"
#include "model/verdict.h"

namespace rung {

struct RecordingMeta {
  UnixNs created{};
  std::string host;
  std::string rung_version;
  bool simulated = false;          // the writer also sets it when an observation says so
  std::string job;                 // the job that was asked for; "" when all were recorded
  std::optional<UnixNs> finished;  // set by the reader: unknown when the writer was killed
};

struct RecordedTick {
  UnixNs now{};
  std::vector<Observation> observations;  // in the order in which they were added
  std::vector<Verdict> verdicts;  // as they stood; without evidence, not_established and next
  std::uint64_t dropped = 0;      // observations and verdicts that did not fit the bounds below
};

// Bounds of version 1. What goes over is dropped by the writer and counted in its tick; a file that
// goes over is bad input.
inline constexpr std::size_t kRecordingTickBytes = 128U << 20;  // of one tick in memory
inline constexpr std::size_t kRecordingTextBytes = 4096;        // of one text
inline constexpr std::size_t kRecordingTickVerdicts = 4096;
inline constexpr std::size_t kRecordingBatchEntries = 65536;  // larger batches are split
inline constexpr int kRecordingTicksPerCommit = 5;            // what kill -9 can cost

class RecordingWriter {
 public:
  using Meta = RecordingMeta;

  // Makes the file, readable by owner and group; never overwrites one. Until finish() the newest
  // data lie beside it in PATH-wal, and no one else can open the file.
  // Errors: kUsage (PATH or PATH-wal exists), kNoPermission, kNotFound, kUnavailable.
  static Result<std::unique_ptr<RecordingWriter>> create(const std::string& path, Meta meta);
  virtual ~RecordingWriter() = default;

  // Adds to the tick that the next end_tick() closes. After an error (disk full) nothing more is
  // written and each further call returns it again; ticks committed before stay readable.
  virtual Result<void> add(const Observation& observation) = 0;
  virtual Result<void> end_tick(UnixNs now, const std::vector<Verdict>& verdicts) = 0;

  // Commits, folds PATH-wal into the file and closes it. Observations of a tick that was not ended
  // are discarded. Without it the destructor commits what end_tick() closed.
  virtual Result<void> finish() = 0;

  // Observations and verdicts dropped so far.
  virtual std::uint64_t dropped() const = 0;
};

class RecordingReader {
 public:
  using Meta = RecordingMeta;
  using Tick = RecordedTick;

  // Opens a recording, its bytes untrusted, for reading only; also one whose writer was killed,
  // with its PATH-wal. Errors: kBadInput (not a regular file, foreign, corrupt, other version),
  // kNotFound, kNoPermission, kUnavailable (still being written).
  static Result<std::unique_ptr<RecordingReader>> open(const std::string& path);
  virtual ~RecordingReader() = default;

  virtual const Meta& meta() const = 0;

  // Replaces `out` by the next tick; false after the last one. Keeps one tick in memory.
  // Errors: kBadInput; the reader stays at the end then.
  virtual Result<bool> next_tick(Tick& out) = 0;
};

}  // namespace rung
