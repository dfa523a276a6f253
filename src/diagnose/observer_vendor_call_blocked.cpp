// observer.vendor_call_blocked: a call into the vendor's library has not returned. That is all it
// says: not that a driver is dead.
#include <fmt/format.h>

#include "diagnose/facts.h"
#include "diagnose/rules.h"

namespace rung {

std::vector<Finding> judge_observer_vendor_call_blocked(const JobView& view) {
  Finding finding;
  for (const ObserverFact& fact : view.observer) {
    if (fact.kind != HealthEvent::Kind::kVendorCallBlocked || !fact.ongoing) continue;
    finding.since = finding.since ? std::min(*finding.since, fact.at) : fact.at;
    Fact blocked = observer_fact("a vendor call has not returned: " + fact.what, fact.value, "s");
    blocked.rung = Rung::kFleet;
    if (finding.summary.empty()) {
      finding.summary = fmt::format("vendor call blocked {:.0f} s: {}", fact.value, fact.what);
    }
    finding.facts.push_back(std::move(blocked));
  }
  if (finding.facts.empty()) return {};
  finding.kind = kind::kObserverVendorCallBlocked;
  finding.severity = Severity::kWarning;
  finding.positive_sign = true;
  finding.not_established.push_back("the state of the device and its driver");
  finding.next.push_back("rung status");
  return {finding};
}

}  // namespace rung
