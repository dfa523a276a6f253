// hang.no_progress: all ranks have joined, none completes, and all are inactive, for longer than
// the job's own pauses. The cause is then below the program: network, device, driver.
#include "diagnose/no_progress.h"
#include "diagnose/rules.h"

namespace rung {

std::vector<Finding> judge_hang_no_progress(const JobView& view) {
  const Situation situation(view);
  const auto found = find_no_progress(situation);
  if (!found || situation.age(*situation.still_since) < hang_after(view)) return {};
  if (!found->not_all_joined.empty() || !found->not_a_hang.empty()) return {};
  Finding finding = no_progress_finding(situation, *found);
  finding.kind = kind::kHangNoProgress;
  finding.severity = Severity::kError;
  return {finding};
}

}  // namespace rung
