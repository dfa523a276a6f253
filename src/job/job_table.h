// JobTable: turns observations into jobs, ranks and the JobViews that rules judge. It has no clock
// and does no I/O: the same observations give the same views, live or replayed.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "job/rank_state.h"
#include "model/job_view.h"
#include "model/observation.h"

namespace rung {

class JobTable {
 public:
  // An ended job keeps answering for this long.
  static constexpr std::chrono::hours kEndedJobsStay{1};
  // A health event of the observer counts as ongoing for this long after it was last reported.
  static constexpr std::chrono::seconds kObserverFactStays{30};

  void absorb(const Observation& observation);

  // Forgets ended jobs that are too old or too many. Call once per tick.
  void age(UnixNs now);

  std::vector<JobView> views(UnixNs now) const;

  // The owner of a job, for deciding who may see it.
  std::optional<std::uint32_t> owner(const JobId& job) const;

  // Observations from which this table can be built again; for one job or all.
  std::vector<Observation> snapshot(UnixNs now, const std::optional<JobId>& job) const;

  // The job a process belongs to, if it is known.
  const JobId* job_of(const ProcessKey& process) const;

  std::uint64_t overflow() const { return overflow_; }  // processes that found no room

 private:
  struct Job {
    std::int32_t attempt = 0;
    std::map<RankId, ProcessKey> ranks;  // the newest incarnation of each rank
    std::optional<UnixNs> ended;
  };

  void absorb_identity(const Observation& observation, const ProcessIdentity& identity);
  void absorb_device(UnixNs at, const DeviceSample& sample);
  void absorb_health(UnixNs at, const HealthEvent& event);
  bool all_gone(const Job& job) const;
  void drop(const JobId& job);
  JobView view(const JobId& id, const Job& job, UnixNs now) const;
  void fill_ranks(JobView& out, const Job& job, UnixNs now) const;
  std::map<CommId, CommId> later_names(const Job& job) const;
  void fill_comms(JobView& out, const Job& job) const;
  void fill_progress(JobView& out, const Job& job, UnixNs now) const;
  const DeviceSample* device_of(const ProcessKey& process, const RankState& state) const;

  std::map<ProcessKey, RankState> processes_;
  std::map<ProcessKey, JobId> job_of_;
  std::map<JobId, Job> jobs_;
  std::map<DeviceId, DeviceSample> devices_;
  std::map<std::pair<HealthEvent::Kind, std::string>, ObserverFact> observer_;
  std::uint64_t overflow_ = 0;
};

}  // namespace rung
