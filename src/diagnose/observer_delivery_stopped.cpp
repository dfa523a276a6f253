// observer.delivery_stopped: what we see of a rank has stopped arriving, or we stood still
// ourselves. Silence of the rank means nothing then.
#include <fmt/format.h>

#include <algorithm>

#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/text.h"
#include "diagnose/thresholds.h"

namespace rung {

std::vector<Finding> judge_observer_delivery_stopped(const JobView& view) {
  Finding finding;
  for (const RankView& rank : view.ranks) {
    if (rank.exit) continue;
    const bool stale = std::any_of(
        rank.coverage.begin(), rank.coverage.end(),
        [](const RungCoverage& c) { return c.rung == Rung::kHost && c.stage == Stage::kStale; });
    if (stale) finding.ranks.insert(rank.rank);
  }
  if (!finding.ranks.empty()) {
    finding.summary =
        fmt::format("host probes no longer deliver from {}", ranks_text(finding.ranks));
    finding.facts.push_back(observer_fact("host coverage is stale",
                                          static_cast<double>(finding.ranks.count()), "ranks"));
  }
  for (const ObserverFact& fact : view.observer) {
    const bool late = fact.kind == HealthEvent::Kind::kTickLate && fact.value >= kTickLateMs &&
                      view.now - fact.at <= kObserverMemory;
    if (!late) continue;
    if (finding.summary.empty()) {
      finding.summary = fmt::format("the agent's own tick came {:.1f} s late", fact.value / 1000);
    }
    finding.since = finding.since ? std::min(*finding.since, fact.at) : fact.at;
    finding.facts.push_back(observer_fact("a tick of the agent came late", fact.value, "ms"));
  }
  if (finding.summary.empty()) return {};
  finding.kind = kind::kObserverDeliveryStopped;
  finding.severity = Severity::kWarning;
  finding.positive_sign = true;
  finding.not_established.push_back("what the ranks did while nothing was delivered");
  finding.next.push_back("rung status");
  return {finding};
}

}  // namespace rung
