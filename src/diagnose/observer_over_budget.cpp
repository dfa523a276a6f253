// observer.over_budget: probes cost more than their budget and were thinned.
#include <fmt/format.h>

#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/text.h"

namespace rung {

std::vector<Finding> judge_observer_over_budget(const JobView& view) {
  Finding finding;
  for (const RankView& rank : view.ranks) {
    if (!rank.exit && rank.launches_thinned) finding.ranks.insert(rank.rank);
  }
  for (const ObserverFact& fact : view.observer) {
    if (fact.kind != HealthEvent::Kind::kProbesThinned || !fact.ongoing) continue;
    finding.since = finding.since ? std::min(*finding.since, fact.at) : fact.at;
    finding.facts.push_back(
        observer_fact("launch probes are on only part of the time: " + fact.what, fact.value, "%"));
  }
  if (finding.facts.empty() && finding.ranks.empty()) return {};
  if (finding.facts.empty()) {
    finding.facts.push_back(observer_fact("launch probes are on only part of the time",
                                          static_cast<double>(finding.ranks.count()), "ranks"));
  }
  finding.kind = kind::kObserverOverBudget;
  finding.severity = Severity::kInfo;
  finding.positive_sign = true;
  finding.summary = finding.ranks.empty()
                        ? "launch probes are thinned to stay within the overhead budget"
                        : fmt::format(
                              "launch probes of {} are thinned to stay within the "
                              "overhead budget",
                              ranks_text(finding.ranks));
  finding.not_established.push_back("launches while the probes were off; collectives are all seen");
  finding.next.push_back("rung status");
  return {finding};
}

}  // namespace rung
