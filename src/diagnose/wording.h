// Sentences that several rules share.
#pragma once

#include <string>
#include <vector>

#include "diagnose/situation.h"
#include "model/verdict.h"

namespace rung {

// So many ranks are told one by one; the rest are in the rank set.
inline constexpr std::size_t kDetailedRanks = 4;

// What speaks for it that each of these ranks has not joined: its last call, its state, its count,
// and who waits for it.
void add_suspect_facts(const Situation& situation, const std::vector<Suspect>& suspects,
                       Finding& finding);

// Facts on up to kDetailedRanks of `ranks`: last call and device.
void add_waiting_facts(const Situation& situation, const RankSet& ranks, Finding& finding);

// "py-spy dump --pid N" for up to kDetailedRanks ranks, then `rung why JOB --json`.
void add_next_steps(const JobView& view, const RankSet& ranks, Finding& finding);

// "rank 3 has not joined AllReduce ... on communicator 0x..., index 42, for 12.3 s; 7 ranks wait".
std::string not_joined_text(const Situation& situation, const std::vector<Suspect>& suspects,
                            std::size_t waiting);

// The earliest `since` of the suspects.
JobNs earliest(const std::vector<Suspect>& suspects);

}  // namespace rung
