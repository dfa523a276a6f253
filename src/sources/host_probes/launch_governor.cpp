#include "sources/host_probes/launch_governor.h"

#include <algorithm>
#include <cmath>

namespace rung {
namespace {

// Long enough to measure a rate, short enough that a look at a busy process costs little. Attaching
// and detaching cost some milliseconds, so periods are not shorter than two seconds.
constexpr std::chrono::milliseconds kOnWindow{250};
constexpr double kShortestPeriod = 2;
// A silent process is looked at for this long without a break.
constexpr std::chrono::milliseconds kHold{1100};
constexpr double kLongestPeriod = 60;  // seconds: sooner or later we look again
// Back to always on only well below the budget, or the probes would flap.
constexpr double kRestoreBelow = 0.8;

}  // namespace

void LaunchGovernor::thin(UnixNs now, double launch_share, double other_share) {
  thinned_ = true;
  on_ = false;
  if (!cyclic_) {
    percent_on_ = 0;
    return;
  }
  const double left = budget_ - other_share;
  const double window = std::chrono::duration<double>(kOnWindow).count();
  const double wanted = left > 0 ? window * launch_share / left : kLongestPeriod;
  const double period = std::clamp(std::ceil(wanted), kShortestPeriod, kLongestPeriod);
  percent_on_ = 100.0 * window / period;
  off_until_ = now + std::chrono::seconds(static_cast<int>(period)) - kOnWindow;
}

LaunchGovernor::Action LaunchGovernor::decide(UnixNs now, double launch_share, double other_share) {
  if (!on_) {
    if (!cyclic_ || now < off_until_) return Action::kKeep;
    on_ = true;
    on_since_ = now;
    return Action::kPutOn;
  }
  if (thinned_ && (now - on_since_ < kOnWindow || now < hold_until_)) return Action::kKeep;
  asked_ = asked_ || launch_share > 0;
  const double share = launch_share + other_share;
  if (thinned_ && share <= kRestoreBelow * budget_) {
    thinned_ = false;
    percent_on_ = 100;
    return Action::kKeep;
  }
  const bool over = share > budget_;
  if (!thinned_ && (!over || launch_share <= 0)) return Action::kKeep;
  thin(now, launch_share, other_share);
  return Action::kTakeOff;
}

void LaunchGovernor::look_soon(UnixNs now) {
  if (!cyclic_ || !thinned_) return;
  hold_until_ = now + kHold;
  if (!on_) off_until_ = now;
}

void LaunchGovernor::could_not_put_on(UnixNs now) {
  on_ = false;
  off_until_ = now + std::chrono::seconds(static_cast<int>(kLongestPeriod));
}

}  // namespace rung
