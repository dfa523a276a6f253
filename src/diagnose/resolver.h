// Resolver: turns findings into verdicts. It alone orders, merges and suppresses them, computes
// confidence, and remembers since when each stands. It reads no clock: time is the view's.
#pragma once

#include <string>
#include <vector>

#include "model/job_view.h"
#include "model/verdict.h"

namespace rung {

// One resolver per job; call resolve once per tick, with views in ascending order of time.
class Resolver {
 public:
  // A stall, hang or missing rank that is not found for less than this, while nothing moved, still
  // stands: one late sample must not make a verdict flicker.
  static constexpr std::chrono::seconds kHold{2};
  // A checkpoint is written in bursts: it may rest this long between two of them.
  static constexpr std::chrono::seconds kPauseHold{10};
  // Facts kept of one verdict.
  static constexpr std::size_t kFacts = 32;

  // The verdicts that stand, most important first: observer.* before all, then dead and stopped
  // ranks, hangs, missing ranks, stalls, pauses, health. What explains another thing hides it:
  // dead or stopped ranks and mismatches hide the waits they cause, hangs hide stalls, a checkpoint
  // hides its stall, any problem hides health; unknown stands only where the job has no other
  // verdict; observer.over_budget only beside a problem or unknown.
  std::vector<Verdict> resolve(const JobView& view, std::vector<Finding> findings);

 private:
  struct Standing {
    Verdict verdict;
    JobNs last_found{};
  };
  const Standing* standing(const Finding& finding) const;
  void hold(const JobView& view, std::vector<Verdict>& verdicts, std::vector<Standing>& next);

  std::vector<Standing> standing_;
  std::int32_t attempt_ = 0;
};

// `established`: two classes of evidence agree or there is a positive sign; `likely`: one class;
// `possible`: only the order of host calls, or only unobserved ranks to blame.
Confidence confidence_of(const Finding& finding);

}  // namespace rung
