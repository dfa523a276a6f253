#include "sources/host_probes/launch_governor.h"

#include <algorithm>
#include <cmath>

namespace rung {
namespace {

constexpr std::chrono::seconds kOnWindow{1};
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
  const double wanted = left > 0 ? launch_share / left : kLongestPeriod;
  const double period = std::clamp(std::ceil(wanted), 2.0, kLongestPeriod);
  percent_on_ = 100.0 / period;
  off_until_ = now + std::chrono::seconds(static_cast<int>(period) - 1);
}

LaunchGovernor::Action LaunchGovernor::decide(UnixNs now, double launch_share, double other_share) {
  if (!on_) {
    if (!cyclic_ || now < off_until_) return Action::kKeep;
    on_ = true;
    on_since_ = now;
    return Action::kPutOn;
  }
  if (thinned_ && now - on_since_ < kOnWindow) return Action::kKeep;
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

void LaunchGovernor::could_not_put_on(UnixNs now) {
  on_ = false;
  off_until_ = now + std::chrono::seconds(static_cast<int>(kLongestPeriod));
}

}  // namespace rung
