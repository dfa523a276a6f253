// RankState: everything that was observed of one process that is a rank.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "base/log2_histogram.h"
#include "job/comm_state.h"
#include "model/job_view.h"
#include "model/observation.h"

namespace rung {

class RankState {
 public:
  // What is summed over this window becomes RankView::activity.
  static constexpr std::chrono::seconds kActivityWindow{10};
  // Collectives a second are counted over this window.
  static constexpr std::chrono::seconds kRateWindow{10};
  // Launch probes that were on for this long without a launch show that a silent rank is silent.
  static constexpr std::chrono::milliseconds kQuietLook{900};
  // A CPU place older than this says nothing about now.
  static constexpr std::chrono::seconds kCpuPlaceAge{30};

  explicit RankState(const ProcessKey& process, UnixNs first_seen)
      : process_(process), first_seen_(first_seen) {}

  void absorb(const Observation& observation);

  const ProcessIdentity& identity() const { return identity_; }
  bool identified() const { return identified_; }
  bool gone() const { return exit_.has_value(); }
  UnixNs first_seen() const { return first_seen_; }
  std::optional<UnixNs> gone_at() const;
  const std::map<std::uint64_t, CommState>& comms() const { return comms_; }
  const std::vector<PendingInit>& pending_inits() const { return pending_inits_; }
  const Log2Histogram& gaps() const { return gaps_; }
  bool has_unidentified_comms() const;
  std::optional<UnixNs> last_move() const;
  std::optional<UnixNs> last_launch() const { return last_launch_; }
  bool launched_graphs() const { return launched_graphs_; }
  std::optional<UnixNs> last_collective() const { return last_collective_; }
  // Collectives a second over kRateWindow; nothing before the first was seen.
  std::optional<double> collectives_per_second(UnixNs now) const;

  // `device` is the newest sample of this rank's device, if any.
  RankView view(RankId rank, UnixNs now, const DeviceSample* device) const;

  // Observations from which an equal state can be built: a recording begins with them.
  void snapshot(UnixNs now, std::vector<Observation>& out) const;

 private:
  struct Sampled {
    UnixNs at{};
    ProcessSample sample;
  };

  void absorb_sample(UnixNs at, const ProcessSample& sample);
  void absorb_calls(UnixNs at, const HostCallStats& stats);
  void absorb_call(UnixNs at, const InFlightCall& call);
  void absorb_batch(const CollectiveBatch& batch);
  void absorb_comm_event(UnixNs at, const CommEvent& event);
  void note_call(UnixNs at);
  void note_quiet(UnixNs at);
  Activity activity(UnixNs now) const;

  ProcessKey process_;
  UnixNs first_seen_{};
  ProcessIdentity identity_;
  bool identified_ = false;
  std::deque<Sampled> samples_;  // those of the activity window, one more before it
  std::optional<ProcessState> state_;
  UnixNs state_since_{};
  std::optional<ExitView> exit_;
  std::map<std::int32_t, std::pair<UnixNs, InFlightCall>> threads_;  // with when it was reported
  std::map<CallClass, HostCallStats::Class> calls_;
  bool launches_thinned_ = false;
  std::optional<UnixNs> launches_seen_since_;
  // End of the newest span of at least kQuietLook in which every launch would have been seen and
  // none was.
  std::optional<UnixNs> quiet_until_;
  std::optional<UnixNs> last_call_;
  std::optional<UnixNs> last_launch_;
  bool launched_graphs_ = false;
  std::optional<UnixNs> last_collective_;
  std::optional<UnixNs> last_point_to_point_;
  std::optional<UnixNs> probes_since_;
  std::deque<std::pair<UnixNs, std::uint64_t>> collective_counts_;  // (drain, how many)
  std::map<std::uint64_t, CommState> comms_;                        // by pointer
  std::vector<PendingInit> pending_inits_;
  std::uint64_t comms_overflow_ = 0;
  std::map<Rung, RungCoverage> coverage_;
  std::optional<std::pair<UnixNs, CpuPlace>> cpu_place_;
  Log2Histogram gaps_;  // ns between two collectives of this process
};

}  // namespace rung
