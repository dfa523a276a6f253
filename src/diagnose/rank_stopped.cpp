// rank.stopped: a process is stopped by a signal, or held by a debugger.
#include <fmt/format.h>

#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/situation.h"
#include "diagnose/text.h"

namespace rung {
namespace {

bool stopped_long_enough(const JobView& view, const RankView& rank) {
  const auto state = rank.state.maybe();
  const bool stopped =
      state && (*state == ProcessState::kStopped || *state == ProcessState::kTraced);
  return stopped && !rank.exit && view.now - rank.state_since >= kStoppedAfter;
}

// Ranks that a debugger holds and ranks that a signal stopped are told apart.
std::vector<Finding> finding_of(const Situation& situation,
                                const std::vector<const RankView*>& ranks, bool traced) {
  if (ranks.empty()) return {};
  const JobView& view = situation.view;
  Finding finding;
  finding.kind = kind::kRankStopped;
  finding.severity = traced ? Severity::kWarning : Severity::kError;
  finding.positive_sign = true;
  for (const RankView* rank : ranks) {
    finding.ranks.insert(rank->rank);
    finding.since = finding.since ? std::min(*finding.since, rank->state_since) : rank->state_since;
    const std::string by = rank->tracer_pid > 0
                               ? fmt::format(" by its tracer, process {}", rank->tracer_pid)
                           : traced ? " by a tracer"
                                    : " by a signal (state T)";
    finding.facts.push_back(procfs_fact(*rank, "its process is stopped" + by,
                                        seconds_of(view.now - rank->state_since), "s"));
    if (traced) {
      finding.next.push_back(
          fmt::format("end the debugging session of process {}", rank->tracer_pid));
    } else {
      finding.next.push_back(fmt::format("kill -CONT {}", rank->process.pid));
    }
  }
  finding.waiting = situation.graph.waiting_for(finding.ranks);
  finding.summary = fmt::format(
      "{} {} stopped{} for {}; {}; {}", ranks_text(finding.ranks), ranks.size() == 1 ? "is" : "are",
      traced ? fmt::format(" by a debugger (process {})", ranks.front()->tracer_pid) : "",
      duration_text(view.now - *finding.since), last_call_text(view, *ranks.front()),
      count_text(finding.waiting.count(), "waits", "wait"));
  finding.not_established.push_back("who stopped it");
  return {finding};
}

}  // namespace

std::vector<Finding> judge_rank_stopped(const JobView& view) {
  const Situation situation(view);
  std::vector<const RankView*> stopped;
  std::vector<const RankView*> traced;
  for (const RankView& rank : view.ranks) {
    if (!stopped_long_enough(view, rank)) continue;
    const bool held = rank.tracer_pid > 0 || rank.state.maybe() == ProcessState::kTraced;
    (held ? traced : stopped).push_back(&rank);
  }
  std::vector<Finding> out = finding_of(situation, stopped, false);
  for (Finding& finding : finding_of(situation, traced, true)) out.push_back(std::move(finding));
  return out;
}

}  // namespace rung
