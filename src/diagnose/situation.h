// Situation: what a view amounts to, worked out once per rule: who stands still, who waits for
// whom, who can be suspected and who cannot because the evidence is missing.
#pragma once

#include <optional>
#include <vector>

#include "diagnose/thresholds.h"
#include "model/job_view.h"
#include "model/verdict.h"
#include "timeline/movement.h"
#include "timeline/wait_graph.h"

namespace rung {

// A rank that others wait for and that waits for nobody.
struct Suspect {
  const RankView* rank = nullptr;
  std::size_t point = 0;  // where it is awaited longest: an index into graph.points()
  JobNs since{};          // when it last worked or others began to wait, whichever is later
  bool gone = false;
  bool stopped = false;  // for kStoppedAfter at least
  bool positive() const { return gone || stopped; }
};

class Situation {
 public:
  explicit Situation(const JobView& view);

  const JobView& view;
  Movement movement;
  WaitGraph graph;

  // Sinks that may be accused: not joined for kStallAfter or gone or stopped, and for certain
  // waiting for nobody. Ascending by rank.
  std::vector<Suspect> suspects;
  // Ranks that stand still and were not seen to join, but may themselves wait for an unobserved
  // rank.
  RankSet unclear_behind_unobserved;
  // Likewise, but may wait where nothing shows it.
  RankSet unclear_unseen;

  // Since when no rank has worked, if that is at least kStallAfter ago and known.
  std::optional<JobNs> still_since;
  // Living ranks whose calls are not seen: nothing can be said of them by counts.
  RankSet blind;
  RankSet living;

  // Ranks that stand still and have entered what unobserved ranks may not have; empty unless
  // nothing better explains why the whole job stands still.
  RankSet waiting_for_unobserved;
  RankSet unobserved_candidates;

  // Evidence that work is queued on some device: an idle server looks like a hang without it.
  enum class Queued : std::uint8_t { kNone, kPossible, kShown };
  Queued queued = Queued::kNone;

  std::chrono::nanoseconds age(JobNs since) const { return view.now - since; }
  bool stands_still(const RankView& rank) const;

 private:
  void find_ranks();
  void find_suspects();
  void find_unobserved_cause();
  void find_queued_work();
  bool lost_near(JobNs moved) const;
  std::vector<std::optional<JobNs>> waiting_since() const;
  std::optional<JobNs> waiting_since(const WaitPoint& point) const;
};

// Its host probes are known not to deliver.
bool probes_failed(const RankView& rank);

// Its calls are seen: probes deliver, and have delivered.
bool has_eyes(const RankView& rank);

RankSet ranks_of(const std::vector<Suspect>& suspects);

}  // namespace rung
