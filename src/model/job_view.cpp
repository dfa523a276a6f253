#include "model/job_view.h"

#include <algorithm>

namespace rung {

const RankView* JobView::find(RankId rank) const {
  const auto found =
      std::lower_bound(ranks.begin(), ranks.end(), rank,
                       [](const RankView& view, RankId wanted) { return view.rank < wanted; });
  return found != ranks.end() && found->rank == rank ? &*found : nullptr;
}

RankSet JobView::observed() const {
  RankSet set;
  for (const RankView& view : ranks) set.insert(view.rank);
  return set;
}

RankSet JobView::unobserved() const {
  const RankSet all = world_size.match(
      [](std::int32_t size) { return RankSet::first(static_cast<std::size_t>(std::max(size, 0))); },
      [](Unknown) { return RankSet(); });
  return all - observed();
}

const char* name_of(JobProgress::Source source) {
  switch (source) {
    case JobProgress::Source::kNone:
      return "none";
    case JobProgress::Source::kCollectives:
      return "collective_period";
    case JobProgress::Source::kLaunches:
      return "kernel_total";
    case JobProgress::Source::kGraphs:
      return "graph";
  }
  return "none";
}

}  // namespace rung
