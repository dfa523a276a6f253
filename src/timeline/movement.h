// Movement: when each rank was last seen to do work. Launches, collectives, point-to-point calls,
// copies and the like are work; waiting and polling are not.
#pragma once

#include <optional>
#include <vector>

#include "model/job_view.h"

namespace rung {

class Movement {
 public:
  explicit Movement(const JobView& view);

  // The newest moment at which this rank was seen to work; nothing when it never was.
  std::optional<JobNs> of(RankId rank) const;

  // The newest over all ranks, what the view itself tells of the job's progress included.
  std::optional<JobNs> newest() const { return newest_; }
  // The newest collective or point-to-point call of any rank.
  std::optional<JobNs> newest_communication() const { return newest_communication_; }

 private:
  void note(RankId rank, JobNs at);

  std::vector<std::optional<JobNs>> by_rank_;  // index: rank
  std::optional<JobNs> newest_;
  std::optional<JobNs> newest_communication_;
};

// True for calls that give the device work or prepare some; false for those that wait or poll.
bool is_work(CallClass call);

}  // namespace rung
