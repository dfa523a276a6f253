// Judge: the one path from observations to verdicts, for the live agent and for replay.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "diagnose/resolver.h"
#include "job/job_table.h"
#include "model/job_view.h"
#include "model/observation.h"
#include "model/verdict.h"

namespace rung {

class Judge {
 public:
  // How long past verdicts can still be asked for.
  static constexpr std::chrono::hours kHistory{1};
  static constexpr std::size_t kHistoryEntries = 4096;

  void absorb(const Observation& observation) { table_.absorb(observation); }

  // Judges all jobs as of `now`; returns the verdicts that stand.
  const std::vector<Verdict>& tick(UnixNs now);

  const std::vector<JobView>& views() const { return views_; }
  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  // The verdicts that stood at `t`; those of now when `t` is not before the last tick.
  std::vector<Verdict> verdicts_at(UnixNs t) const;
  const JobTable& table() const { return table_; }

 private:
  struct Stood {
    Verdict verdict;
    JobNs from{};
    JobNs to{};  // last tick at which it stood
  };
  void remember(JobNs now);

  JobTable table_;
  std::map<JobId, Resolver> resolvers_;
  std::vector<JobView> views_;
  std::vector<Verdict> verdicts_;
  std::deque<Stood> history_;  // ascending by `from`
  JobNs last_tick_{};
};

}  // namespace rung
