// stall.no_progress: the job has done nothing for kStallAfter and no rank can be named: all have
// joined, or the evidence to name one is missing. A long kernel looks like this.
#include "diagnose/no_progress.h"
#include "diagnose/rules.h"

namespace rung {

std::vector<Finding> judge_stall_no_progress(const JobView& view) {
  const Situation situation(view);
  const auto found = find_no_progress(situation);
  if (!found) return {};
  Finding finding = no_progress_finding(situation, *found);
  finding.kind = kind::kStallNoProgress;
  if (situation.age(*situation.still_since) >= hang_after(view)) {
    finding.severity = Severity::kWarning;
    finding.not_established.insert(finding.not_established.end(), found->not_a_hang.begin(),
                                   found->not_a_hang.end());
  }
  return {finding};
}

}  // namespace rung
