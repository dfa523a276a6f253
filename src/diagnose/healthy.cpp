// healthy.*: the job moves. Progress is launches and collectives; utilization is none.
#include <fmt/format.h>

#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/situation.h"
#include "diagnose/text.h"

namespace rung {

std::vector<Finding> judge_healthy(const JobView& view) {
  if (view.ended) return {};
  const Situation situation(view);
  const auto newest = situation.movement.newest();
  if (!newest || situation.age(*newest) >= kStallAfter) return {};

  Finding finding;
  for (const RankView& rank : view.ranks) {
    const auto moved = situation.movement.of(rank.rank);
    if (!rank.exit && moved && situation.age(*moved) < kStallAfter) {
      finding.ranks.insert(rank.rank);
    }
  }
  const auto communicated = situation.movement.newest_communication();
  const bool communicating = communicated && situation.age(*communicated) < kStallAfter;
  finding.kind = communicating ? kind::kHealthyCommunicating : kind::kHealthyComputing;
  finding.summary =
      fmt::format("the job moves: {} {} within the last {} s", ranks_text(finding.ranks),
                  communicating ? "entered collectives or launched kernels" : "launched kernels",
                  kStallAfter.count());
  Fact moved;
  moved.source = name_of(Source::kHostProbes);
  moved.rung = Rung::kHost;
  moved.evidence = EvidenceClass::kKernelHost;
  moved.fact = communicating ? "age of the newest collective" : "age of the newest launch";
  moved.value = seconds_of(situation.age(communicating ? *communicated : *newest));
  moved.unit = "s";
  finding.facts.push_back(std::move(moved));
  if (const auto rate = view.progress.per_second.maybe(); rate && communicating) {
    finding.facts.push_back(peers_fact("collectives of the slowest rank", *rate, "1/s"));
  }
  for (const RankView& rank : view.ranks) {
    const auto busy = busy_device_fact(rank);
    if (!busy || !finding.ranks.contains(rank.rank)) continue;
    finding.facts.push_back(*busy);
    break;
  }
  const RankSet still = situation.living - finding.ranks;
  if (!still.empty()) {
    finding.not_established.push_back(fmt::format("that {} move", ranks_text(still)));
  }
  return {finding};
}

}  // namespace rung
