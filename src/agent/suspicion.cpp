#include "agent/suspicion.h"

#include <sys/types.h>

#include "model/limits.h"

namespace rung {
namespace {

bool stands_still(const JobView& view) {
  return !view.ended &&
         view.progress.last_at.match(
             [&](JobNs last) { return view.now - last >= Suspicion::kStandsStillFor; },
             [](Unknown) { return false; });
}

}  // namespace

void Suspicion::tick(UnixNs now, const std::vector<JobView>& views, const ProcFs& procfs,
                     std::vector<Observation>& out) {
  for (auto entry = running_.begin(); entry != running_.end();) {
    if (!entry->second.sampler->done()) {
      ++entry;
      continue;
    }
    out.push_back({Origin{Source::kCpuPlace, Rung::kHost, entry->first, now, 0},
                   entry->second.sampler->finish()});
    entry = running_.erase(entry);
  }
  std::erase_if(last_,
                [&](const auto& entry) { return entry.second + kSampleAgainAfter * 2 < now; });
  for (const JobView& view : views) {
    if (!stands_still(view)) continue;
    for (const RankView& rank : view.ranks) start(now, rank, procfs);
  }
}

void Suspicion::start(UnixNs now, const RankView& rank, const ProcFs& procfs) {
  const auto before = last_.find(rank.process);
  const bool recent = before != last_.end() && now < before->second + kSampleAgainAfter;
  if (rank.exit || recent || running_.size() >= kAtOnce || running_.contains(rank.process)) return;
  last_[rank.process] = now;
  const auto threads = procfs.thread_states(rank.process.pid, limits::kThreadsPerRank);
  if (!threads) return;
  std::vector<pid_t> tids;
  for (const ThreadState& thread : *threads) tids.push_back(thread.tid);
  auto sampler = CpuPlaceSampler::start(rank.process.pid, tids, kSampleFor);
  if (sampler) running_[rank.process] = Running{std::move(*sampler)};
}

}  // namespace rung
