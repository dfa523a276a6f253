// hang.rank_not_joined: a rank has not joined and never will. Said at once on a positive sign (it
// is gone or stopped), else after max(60 s, 3 x the job's own p99.9 gap) of known inactivity.
#include <fmt/format.h>

#include "diagnose/activity.h"
#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/situation.h"
#include "diagnose/text.h"
#include "diagnose/wording.h"

namespace rung {
namespace {

bool is_hang(const Situation& situation, const Suspect& suspect) {
  if (suspect.positive()) return true;
  return situation.age(suspect.since) >= hang_after(situation.view) &&
         doing_of(*suspect.rank).what == Doing::What::kInactive;
}

void add_sign(const JobView& view, const Suspect& suspect, Finding& finding) {
  if (suspect.gone) {
    finding.facts.push_back(procfs_fact(*suspect.rank, "its process is gone",
                                        seconds_of(view.now - suspect.rank->exit->at), "s"));
  } else if (suspect.stopped) {
    finding.facts.push_back(procfs_fact(*suspect.rank, "its process is stopped",
                                        seconds_of(view.now - suspect.rank->state_since), "s"));
  } else {
    const Doing doing = doing_of(*suspect.rank);
    finding.facts.insert(finding.facts.end(), doing.facts.begin(), doing.facts.end());
  }
}

}  // namespace

std::vector<Finding> judge_hang_rank_not_joined(const JobView& view) {
  const Situation situation(view);
  std::vector<Suspect> hung;
  bool positive = false;
  for (const Suspect& suspect : situation.suspects) {
    if (!is_hang(situation, suspect)) continue;
    positive = positive || suspect.positive();
    hung.push_back(suspect);
  }
  if (hung.empty()) return {};

  Finding finding;
  finding.kind = kind::kHangRankNotJoined;
  finding.severity = Severity::kError;
  finding.ranks = ranks_of(hung);
  finding.waiting = situation.graph.waiting_for(finding.ranks);
  finding.since = earliest(hung);
  finding.positive_sign = positive;
  finding.summary = not_joined_text(situation, hung, finding.waiting.count());
  add_suspect_facts(situation, hung, finding);
  for (std::size_t i = 0; i < std::min(hung.size(), kDetailedRanks); ++i) {
    add_sign(view, hung[i], finding);
  }
  finding.not_established.push_back("why it stopped: see its stack");
  finding.not_established.push_back("waits outside NCCL (sockets, files, locks) are not seen");
  add_next_steps(view, finding.ranks, finding);
  return {finding};
}

}  // namespace rung
