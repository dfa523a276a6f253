// stall.waiting_for_rank: ranks wait for one that has not joined for kStallAfter. A fact, not yet
// an accusation: it may only be slow.
#include <fmt/format.h>

#include "diagnose/activity.h"
#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/situation.h"
#include "diagnose/text.h"
#include "diagnose/wording.h"

namespace rung {
namespace {

// Old enough for a hang and still none: says what is missing.
void explain_why_no_hang(const Situation& situation, const Suspect& suspect, Finding& finding) {
  if (situation.age(suspect.since) < hang_after(situation.view)) return;
  const Doing doing = doing_of(*suspect.rank);
  if (doing.what == Doing::What::kInactive) return;
  finding.severity = Severity::kWarning;
  finding.not_established.push_back(
      fmt::format("that rank {} is inactive: {}", suspect.rank->rank.value, doing.why));
}

Finding by_name(const Situation& situation, const std::vector<Suspect>& suspects) {
  Finding finding;
  finding.kind = kind::kStallWaitingForRank;
  finding.ranks = ranks_of(suspects);
  finding.waiting = situation.graph.waiting_for(finding.ranks);
  finding.since = earliest(suspects);
  finding.summary = not_joined_text(situation, suspects, finding.waiting.count());
  add_suspect_facts(situation, suspects, finding);
  finding.not_established.push_back("why it has not joined: it may only be slow");
  finding.not_established.push_back("waits outside NCCL (sockets, files, locks) are not seen");
  for (std::size_t i = 0; i < std::min(suspects.size(), kDetailedRanks); ++i) {
    explain_why_no_hang(situation, suspects[i], finding);
    if (suspects[i].rank->launches_thinned) {
      finding.not_established.push_back(
          fmt::format("kernel launches of rank {}: launch probes are off for part of the time",
                      suspects[i].rank->rank.value));
    }
  }
  add_next_steps(situation.view, finding.ranks, finding);
  return finding;
}

// Who may be the cause: unobserved ranks, and observed ones that have not joined but may wait for
// an unobserved one.
std::string candidates_text(const Situation& situation) {
  const RankSet& unobserved = situation.unobserved_candidates;
  const std::string out = unobserved.count() == 1
                              ? fmt::format("the unobserved {}", ranks_text(unobserved))
                              : fmt::format("one of {} unobserved ranks ({})", unobserved.count(),
                                            ranks_text(unobserved));
  if (situation.unclear_behind_unobserved.empty()) return out;
  return fmt::format("{} or {}", ranks_text(situation.unclear_behind_unobserved), out);
}

Finding behind_unobserved(const Situation& situation) {
  const JobView& view = situation.view;
  Finding finding;
  finding.kind = kind::kStallWaitingForRank;
  finding.unobserved = situation.unobserved_candidates;
  finding.waiting = situation.waiting_for_unobserved |
                    situation.graph.waiting_for(situation.waiting_for_unobserved);
  finding.since = situation.still_since;
  finding.summary =
      fmt::format("{} for {}; {} may not have joined",
                  count_text(finding.waiting.count(), "stands still", "stand still"),
                  duration_text(situation.age(*situation.still_since)), candidates_text(situation));
  finding.facts.push_back(
      peers_fact("observed ranks have entered collectives whose other members are not observed",
                 static_cast<double>(situation.waiting_for_unobserved.count()), "ranks"));
  add_waiting_facts(situation, finding.waiting, finding);
  std::size_t told = 0;
  for (const RankId id : situation.unclear_behind_unobserved.ranks()) {
    if (told++ == kDetailedRanks) break;
    finding.facts.push_back(probe_fact(
        *view.find(id), "it has not joined either, but may itself wait for an unobserved rank"));
  }
  finding.not_established.push_back("which of the unobserved ranks it is, or whether all joined");
  if (situation.age(*situation.still_since) >= hang_after(view)) {
    finding.severity = Severity::kWarning;
    finding.not_established.push_back("that the cause is inactive: its node is not observed");
  }
  finding.next.push_back("look at the nodes of the unobserved ranks: rung why there");
  finding.next.push_back(fmt::format("rung why {} --json", view.job.text));
  return finding;
}

}  // namespace

std::vector<Finding> judge_stall_waiting_for_rank(const JobView& view) {
  const Situation situation(view);
  std::vector<Suspect> alive;
  for (const Suspect& suspect : situation.suspects) {
    if (!suspect.positive()) alive.push_back(suspect);
  }
  if (!alive.empty()) return {by_name(situation, alive)};
  if (!situation.waiting_for_unobserved.empty()) return {behind_unobserved(situation)};
  return {};
}

}  // namespace rung
