// unknown.insufficient_evidence: says what is missing.
#include <fmt/format.h>

#include <algorithm>

#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/situation.h"
#include "diagnose/text.h"

namespace rung {
namespace {

// Ranks whose host probes are known not to work, with the reason of the first.
std::string host_rung_text(const JobView& view, const RankSet& blind) {
  for (const RankId id : blind.ranks()) {
    const RankView* rank = view.find(id);
    for (const RungCoverage& coverage : rank->coverage) {
      if (coverage.rung != Rung::kHost || coverage.reason == Reason::kNone) continue;
      return fmt::format("host probes of {}: {} ({})", ranks_text(blind), name_of(coverage.stage),
                         name_of(coverage.reason));
    }
  }
  return fmt::format("no call of {} was seen since the observer came", ranks_text(blind));
}

}  // namespace

std::vector<Finding> judge_unknown(const JobView& view) {
  if (view.ended || view.ranks.empty()) return {};
  const Situation situation(view);
  Finding finding;
  finding.kind = kind::kUnknown;
  finding.ranks = {};
  finding.unobserved = view.unobserved();
  finding.summary = "there is not enough evidence to say what the job does";
  const auto missing = [&](std::string text) {
    finding.not_established.push_back(std::move(text));
  };
  if (!situation.blind.empty()) missing(host_rung_text(view, situation.blind));
  if (!situation.movement.newest()) missing("progress: no launch and no collective was seen");
  if (view.unidentified_comms) missing("who joined: some communicators could not be identified");
  if (view.comms.empty()) missing("who waits for whom: no communicator is known");
  if (situation.still_since && situation.queued == Situation::Queued::kNone) {
    missing("that work is queued on the GPUs: the job may wait for requests");
  }
  if (!finding.unobserved.empty()) {
    missing(fmt::format("what {} do: they are not observed", ranks_text(finding.unobserved)));
  }
  for (const RankView& rank : view.ranks) {
    if (rank.exit) continue;
    if (const auto fact = state_fact(rank)) finding.facts.push_back(*fact);
    if (const auto fact = busy_device_fact(rank)) finding.facts.push_back(*fact);
    if (finding.facts.size() >= 8) break;
  }
  finding.next.push_back("rung status, for what is observed of each rank");
  finding.next.push_back("rung doctor, for what could be");
  return {finding};
}

}  // namespace rung
