// observer.lossy: records were lost lately. A lost record can hide that a rank joined.
#include <fmt/format.h>

#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/thresholds.h"

namespace rung {

std::vector<Finding> judge_observer_lossy(const JobView& view) {
  Finding finding;
  double lost = 0;
  for (const ObserverFact& fact : view.observer) {
    const bool recent = fact.kind == HealthEvent::Kind::kRecordsLost && fact.value > 0 &&
                        view.now - fact.at <= kObserverMemory;
    if (!recent) continue;
    lost += fact.value;
    finding.since = finding.since ? std::min(*finding.since, fact.at) : fact.at;
    finding.facts.push_back(
        observer_fact("records were lost: " + fact.what, fact.value, "records"));
  }
  if (finding.facts.empty()) return {};
  finding.kind = kind::kObserverLossy;
  finding.severity = Severity::kWarning;
  finding.positive_sign = true;
  finding.summary = fmt::format("the observer lost {:.0f} records in the last {} s", lost,
                                kObserverMemory.count());
  finding.not_established.push_back("what the lost records said: a rank may have joined unseen");
  finding.next.push_back("rung status");
  return {finding};
}

}  // namespace rung
