// The ranks of a job as a table whose rows stand for all ranks in the same situation.
#pragma once

#include <string>

#include "export/text_options.h"
#include "model/job_view.h"
#include "model/rank_set.h"

namespace rung::view {

// At most limits::kTableRows rows, whatever the size of the job: where exact rows are too many,
// counts and ages become ranges, then calls are left out. Ranks in `accused` never share a row with
// others and are marked. Ends with the legend of what occurs.
std::string rank_table(const JobView& job, const RankSet& accused, const TextOptions& options);

// What is missing to see more: "host refused (no_permission) on ranks 0-7: <detail>", one line for
// each cause, at most limits::kListLines; "" when nothing is.
std::string coverage_gaps(const JobView& job, int width);

}  // namespace rung::view
