// What stall.no_progress and hang.no_progress have in common: the job stands still and nobody can
// be named for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diagnose/situation.h"
#include "model/verdict.h"

namespace rung {

struct NoProgress {
  RankSet waiting;  // living ranks that stand still
  std::vector<RankSet> cycles;
  // Empty when every rank is known to have joined everything; else what is not known.
  std::vector<std::string> not_all_joined;
  // Empty when nothing speaks against a hang but its age; else what does.
  std::vector<std::string> not_a_hang;
};

// Nothing unless the job stands still with work queued and no better explanation.
std::optional<NoProgress> find_no_progress(const Situation& situation);

// The finding without kind and severity.
Finding no_progress_finding(const Situation& situation, const NoProgress& found);

}  // namespace rung
