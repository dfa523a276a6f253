// Governing: the launch probes stay within their budget, and files that nobody uses lose theirs.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "sources/host_probes/host_probes_impl.h"

namespace rung {
namespace {

// Probes of a file outlive its last process a little: the next rank of a restarting job needs them.
constexpr std::int64_t kLingerNs = 5'000'000'000;
// No call for this long, where there were some before: nothing but unseen launches could go on.
constexpr std::chrono::milliseconds kSilentAfter{900};

}  // namespace

// What the launch probes and the others cost of one CPU, in this process, since the last call.
std::pair<double, double> HostProbes::Impl::shares(Watched& process, UnixNs now) {
  const std::uint64_t launches = process.counted.entered[RUNG_CALL_LAUNCH];
  const std::uint64_t others = all_calls(process.counted) - launches;
  std::pair<double, double> out{0, 0};
  if (process.measured_at && now > *process.measured_at) {
    const double elapsed_ns = static_cast<double>((now - *process.measured_at).count());
    const auto share = [&](std::uint64_t hits) {
      return static_cast<double>(hits) * canary_.cost_ns / elapsed_ns;
    };
    out = {share(launches - process.launches_measured), share(others - process.others_measured)};
  }
  const bool moved = launches + others > process.launches_measured + process.others_measured;
  if (moved) process.moved_at = now;
  const bool silent = process.moved_at && now - *process.moved_at >= kSilentAfter;
  process.fell_silent = silent && !process.silent;
  process.silent = silent;
  process.launches_measured = launches;
  process.others_measured = others;
  process.measured_at = now;
  return out;
}

void HostProbes::Impl::govern(UnixNs now, std::vector<Observation>& out) {
  highest_share_ = 0;
  for (auto& [key, process] : processes_) {
    const auto share = shares(*process, now);
    last_shares_[key] = share;
    highest_share_ = std::max(highest_share_, share.first + share.second);
  }
  const std::int64_t mono_now = mono_now_ns();
  for (auto file = files_.begin(); file != files_.end();) {
    if (file->users.empty() && mono_now - file->unused_since_mono >= kLingerNs) {
      file = files_.erase(file);
      continue;
    }
    if (file->has_launches() && !file->users.empty()) govern_file(*file, now, out);
    ++file;
  }
}

void HostProbes::Impl::govern_file(ProbedFile& file, UnixNs now, std::vector<Observation>& out) {
  std::pair<double, double> worst{0, 0};
  for (const ProcessKey& user : file.users) {
    const auto& share = last_shares_[user];
    if (share.first + share.second > worst.first + worst.second) worst = share;
    // Nothing but launches could hide behind this silence: look before the off period ends.
    const auto process = processes_.find(user);
    if (process != processes_.end() && process->second->fell_silent) file.governor.look_soon(now);
  }
  const bool thinned_before = file.governor.thinned();
  const auto action = file.governor.decide(now, worst.first, worst.second);
  if (action == LaunchGovernor::Action::kTakeOff) {
    file.take_launches_off();
    last_detach_ = file.last_detach();
  }
  if (action == LaunchGovernor::Action::kPutOn) {
    if (file.put_launches_on(*programs_)) {
      last_attach_ = file.last_attach();
    } else {
      file.governor.could_not_put_on(now);
    }
  }
  if (file.governor.thinned() && !thinned_before) {
    tell_users(file, {HealthEvent::Kind::kProbesThinned, file.governor.percent_on(), file.path()},
               now, out);
  } else if (thinned_before && !file.governor.thinned()) {
    tell_users(file, {HealthEvent::Kind::kProbesRestored, 100, file.path()}, now, out);
  }
}

void HostProbes::Impl::tell_users(const ProbedFile& file, HealthEvent event, UnixNs now,
                                  std::vector<Observation>& out) {
  for (const ProcessKey& user : file.users) {
    const auto process = processes_.find(user);
    if (process == processes_.end()) continue;
    if (event.kind == HealthEvent::Kind::kProbesThinned) process->second->thinned_ever = true;
    out.push_back({origin(*process->second, now), event});
  }
}

}  // namespace rung
