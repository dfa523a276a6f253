// The rules. Each looks at one JobView, touches nothing else, and returns what it found; where
// evidence is missing it returns nothing rather than a guess. Confidence, order and suppression are
// the resolver's.
#pragma once

#include <array>
#include <vector>

#include "model/job_view.h"
#include "model/verdict.h"

namespace rung {

// Trouble of the observer itself.
std::vector<Finding> judge_observer_delivery_stopped(const JobView& view);
std::vector<Finding> judge_observer_lossy(const JobView& view);
std::vector<Finding> judge_observer_over_budget(const JobView& view);
std::vector<Finding> judge_observer_vendor_call_blocked(const JobView& view);

// rank.dead: the first rank that died while others were left or followed. A rank that left with
// exit code 0 (or an unknown one) counts as dead only when others stand and wait for it: a program
// that ends early on one rank is as fatal to its peers as a crash. All ranks leaving with 0 is an
// end and no verdict; so is a whole job that one SIGTERM ended.
std::vector<Finding> judge_rank_dead(const JobView& view);
// rank.stopped: stopped by a signal, or held by a debugger (then a warning that names it).
std::vector<Finding> judge_rank_stopped(const JobView& view);

std::vector<Finding> judge_hang_collective_mismatch(const JobView& view);
std::vector<Finding> judge_hang_rank_not_joined(const JobView& view);
std::vector<Finding> judge_hang_no_progress(const JobView& view);

std::vector<Finding> judge_init_rank_missing(const JobView& view);

std::vector<Finding> judge_stall_waiting_for_rank(const JobView& view);
std::vector<Finding> judge_stall_no_progress(const JobView& view);

std::vector<Finding> judge_pause_checkpoint(const JobView& view);

std::vector<Finding> judge_healthy(const JobView& view);  // computing or communicating
// Always says why nothing better can be said; the resolver drops it beside anything better.
std::vector<Finding> judge_unknown(const JobView& view);

using Rule = std::vector<Finding> (*)(const JobView&);
inline constexpr std::array kRules = {
    &judge_observer_delivery_stopped,
    &judge_observer_lossy,
    &judge_observer_over_budget,
    &judge_observer_vendor_call_blocked,
    &judge_rank_dead,
    &judge_rank_stopped,
    &judge_hang_collective_mismatch,
    &judge_hang_rank_not_joined,
    &judge_hang_no_progress,
    &judge_init_rank_missing,
    &judge_stall_waiting_for_rank,
    &judge_stall_no_progress,
    &judge_pause_checkpoint,
    &judge_healthy,
    &judge_unknown,
};

}  // namespace rung
