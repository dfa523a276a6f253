// What the views derive from a JobView: the state of a job in one word, and what a rank did last.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/job_view.h"
#include "model/verdict.h"

namespace rung::view {

// The verdicts of that job and attempt, in the order given.
std::vector<const Verdict*> verdicts_of(const JobView& job, const std::vector<Verdict>& verdicts);

// "ended", or the worst family among its verdicts: "hang", "rank", "init", "device", "slow",
// "stall", "pause", "healthy", else "unknown".
std::string job_state(const JobView& job, const std::vector<Verdict>& verdicts);

// Where a rank stands in the largest communicator in which its count is known.
struct RankProgress {
  std::uint64_t entered = 0;  // collectives entered so far
  std::int32_t comm_size = 0;
};
std::optional<RankProgress> progress_of(const JobView& job, RankId rank);

// "running", ..., "exited 1", "killed by signal 9", "gone"; nothing when not known.
std::optional<std::string> state_of(const RankView& rank);

}  // namespace rung::view
