// Replayer: runs a recording through the judgement and compares with what was said live.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/judge.h"
#include "base/result.h"
#include "store/recording.h"

namespace rung {

// A verdict that began to stand, or ceased to.
struct VerdictChange {
  UnixNs at{};
  bool stands = true;
  Verdict verdict;
};

struct ReplayOutcome {
  RecordingMeta meta;
  std::uint64_t ticks = 0;
  std::uint64_t observations = 0;
  std::uint64_t dropped = 0;
  std::vector<VerdictChange> changes;    // in time order
  std::vector<Verdict> ever;             // each (kind, job, ranks) once, as it last stood
  std::vector<Verdict> standing;         // at the end
  std::vector<JobView> views;            // at the end
  std::uint64_t differing_ticks = 0;     // where live and replayed verdicts were not the same
  std::vector<std::string> differences;  // the first few, for people
};

// Errors: those of RecordingReader.
Result<ReplayOutcome> replay_recording(const std::string& path);

}  // namespace rung
