// LaunchGovernor: decides when the launch probes of one library file are on, so that what they cost
// stays within a budget.
#pragma once

#include <chrono>

#include "model/time.h"

namespace rung {

class LaunchGovernor {
 public:
  enum class Action { kKeep, kTakeOff, kPutOn };

  // `budget`: share of one CPU. `cyclic`: probes can be taken off and put on again cheaply; if not,
  // they are taken off once and for all.
  LaunchGovernor(double budget, bool cyclic) : budget_(budget), cyclic_(cyclic) {}

  // To be asked at each tick, and soon after kPutOn so that a look stays short. `launch_share` and
  // `other_share`: what launch probes and all other probes cost of one CPU while the launch probes
  // are on, of the process where they cost most, measured since the launch probes were put on or
  // the last tick, whichever is later. Ignored while they are off.
  Action decide(UnixNs now, double launch_share, double other_share);

  // A process fell silent: whether it still launches must be known soon. Ends an off period early.
  void look_soon(UnixNs now);

  // The probes that kPutOn asked for could not be attached: try again later.
  void could_not_put_on(UnixNs now);

  bool on() const { return on_; }
  bool asked() const { return asked_; }  // decide() was called with a measured share
  bool thinned() const { return thinned_; }
  double percent_on() const { return percent_on_; }  // of the time
  // Start of the last full period with launch probes on; a call before it may have been followed by
  // launches that nobody saw.
  UnixNs on_since() const { return on_since_; }

 private:
  void thin(UnixNs now, double launch_share, double other_share);

  double budget_;
  bool cyclic_;
  bool on_ = true;
  bool thinned_ = false;
  bool asked_ = false;
  double percent_on_ = 100;
  UnixNs on_since_{};
  UnixNs off_until_{};
  UnixNs hold_until_{};
};

}  // namespace rung
