// Suspicion: when a job stands still, samples where its ranks spend their CPU time, so that a rank
// that spins inside CUDA is told from one that works. Nothing is sampled while the job moves.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "model/job_view.h"
#include "model/observation.h"
#include "sources/cpu_place/cpu_place.h"
#include "sources/procfs/procfs.h"

namespace rung {

class Suspicion {
 public:
  static constexpr std::chrono::seconds kStandsStillFor{5};  // as kStallAfter of the rules
  static constexpr std::chrono::seconds kSampleFor{1};
  static constexpr std::chrono::seconds kSampleAgainAfter{10};
  static constexpr std::size_t kAtOnce = 16;  // processes sampled at the same time

  // Appends the CpuPlace of each sample that has ended and starts new ones where needed.
  void tick(UnixNs now, const std::vector<JobView>& views, const ProcFs& procfs,
            std::vector<Observation>& out);

 private:
  struct Running {
    std::unique_ptr<CpuPlaceSampler> sampler;
  };
  void start(UnixNs now, const RankView& rank, const ProcFs& procfs);

  std::map<ProcessKey, Running> running_;
  std::map<ProcessKey, UnixNs> last_;
};

}  // namespace rung
