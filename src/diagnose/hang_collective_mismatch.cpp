// hang.collective_mismatch: members asked different things of the same collective, and stand still
// since. Sizes that differ at one index wedge at once; equal ones would go on.
#include <fmt/format.h>

#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/situation.h"
#include "diagnose/text.h"
#include "diagnose/wording.h"

namespace rung {
namespace {

// Everybody on either side stands still, and did not go on for long after the difference.
bool is_wedged(const Situation& situation, const CommView& comm, const Mismatch& mismatch) {
  RankSet sides;
  for (const SignatureSide& side : mismatch.sides) sides |= side.ranks;
  for (const RankId id : sides.ranks()) {
    const RankView* rank = situation.view.find(id);
    if (rank == nullptr || rank->exit) return false;
    const auto moved = situation.movement.of(id);
    if (!situation.stands_still(*rank)) return false;
    if (*moved - mismatch.last_entered > kMismatchRunAhead) return false;
  }
  // Members that took part and are not on a side any more (their tails went on) survived it.
  return sides.count() >= 2 && joined(comm, mismatch.index).count() == sides.count();
}

RankSet accused(const Mismatch& mismatch) {
  RankSet out;
  for (std::size_t side = 0; side < mismatch.sides.size(); ++side) {
    if (mismatch.majority != side) out |= mismatch.sides[side].ranks;
  }
  return out;
}

std::string sides_text(const Mismatch& mismatch) {
  std::string out;
  for (const SignatureSide& side : mismatch.sides) {
    if (!out.empty()) out += "; ";
    out += fmt::format("{} asked for {}", ranks_text(side.ranks), signature_text(side.what));
  }
  return out;
}

Finding finding_of(const Situation& situation, const CommView& comm, const Mismatch& mismatch) {
  const JobView& view = situation.view;
  Finding finding;
  finding.kind = kind::kHangCollectiveMismatch;
  finding.severity = Severity::kError;
  finding.positive_sign = true;
  finding.ranks = accused(mismatch);
  RankSet members;
  for (const MemberView& member : comm.members) members.insert(member.rank);
  finding.waiting = (members | situation.graph.waiting_for(members)) - finding.ranks;
  finding.since = mismatch.last_entered;
  finding.summary = fmt::format("ranks differ on {}, index {}: {}; they stand still for {}",
                                comm_text(comm), mismatch.index, sides_text(mismatch),
                                duration_text(situation.age(mismatch.last_entered)));
  const bool memory = comm.id.source == CommId::Source::kMemory;
  for (const SignatureSide& side : mismatch.sides) {
    Fact fact = probe_fact(*view.find(side.ranks.ranks().front()),
                           fmt::format("{} asked for {} at index {}", ranks_text(side.ranks),
                                       signature_text(side.what), mismatch.index),
                           static_cast<double>(side.ranks.count()), "ranks");
    if (memory) fact.evidence = EvidenceClass::kNcclMemory;
    finding.facts.push_back(std::move(fact));
  }
  for (const RankId id : finding.ranks.ranks()) {
    if (finding.facts.size() >= mismatch.sides.size() + kDetailedRanks) break;
    finding.facts.push_back(last_call_fact(view, *view.find(id)));
  }
  if (!mismatch.majority) {
    finding.not_established.push_back(
        "which side is wrong: neither is more than half of the "
        "communicator");
  }
  finding.not_established.push_back("whether a rank skipped a call or gave other arguments");
  add_next_steps(view, finding.ranks, finding);
  return finding;
}

}  // namespace

std::vector<Finding> judge_hang_collective_mismatch(const JobView& view) {
  const Situation situation(view);
  std::vector<Finding> out;
  for (const CommView& comm : view.comms) {
    if (match_collectives(comm).captured) continue;
    const auto mismatch = first_mismatch(comm);
    if (mismatch && is_wedged(situation, comm, *mismatch)) {
      out.push_back(finding_of(situation, comm, *mismatch));
    }
  }
  return out;
}

}  // namespace rung
