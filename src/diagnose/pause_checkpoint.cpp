// pause.checkpoint: the rank that others wait for writes data, at a rate that only a checkpoint
// has. A dead file system writes nothing and is no checkpoint.
#include <fmt/format.h>

#include "diagnose/activity.h"
#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/situation.h"
#include "diagnose/text.h"
#include "diagnose/wording.h"

namespace rung {
namespace {

bool writes(const RankView& rank) { return doing_of(rank).what == Doing::What::kWriting; }

}  // namespace

std::vector<Finding> judge_pause_checkpoint(const JobView& view) {
  const Situation situation(view);
  Finding finding;
  std::vector<Suspect> writers;
  for (const Suspect& suspect : situation.suspects) {
    if (!suspect.positive() && writes(*suspect.rank)) writers.push_back(suspect);
  }
  if (!writers.empty()) {
    finding.ranks = ranks_of(writers);
    finding.waiting = situation.graph.waiting_for(finding.ranks);
    finding.since = earliest(writers);
  } else if (situation.still_since && situation.suspects.empty()) {
    for (const RankView& rank : view.ranks) {
      if (!rank.exit && situation.stands_still(rank) && writes(rank)) {
        finding.ranks.insert(rank.rank);
      }
    }
    finding.waiting = situation.living - finding.ranks;
    finding.since = situation.still_since;
  }
  if (finding.ranks.empty()) return {};

  finding.kind = kind::kPauseCheckpoint;
  std::size_t told = 0;
  for (const RankId id : finding.ranks.ranks()) {
    if (told++ == kDetailedRanks) break;
    const Doing doing = doing_of(*view.find(id));
    if (finding.summary.empty()) {
      finding.summary =
          fmt::format("{} writes for {}: {}; {}", ranks_text(finding.ranks),
                      duration_text(situation.age(*finding.since)), doing.why,
                      count_text(finding.waiting.count(), "waits for it", "wait for it"));
    }
    finding.facts.insert(finding.facts.end(), doing.facts.begin(), doing.facts.end());
  }
  add_suspect_facts(situation, writers, finding);
  finding.not_established.push_back("what is written: a checkpoint is the common case");
  finding.next.push_back("if this is too long: write asynchronously or from all ranks");
  return {finding};
}

}  // namespace rung
