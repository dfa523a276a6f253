#include "export/summary.h"

#include <fmt/format.h>

#include <algorithm>

namespace rung::view {

std::vector<const Verdict*> verdicts_of(const JobView& job, const std::vector<Verdict>& verdicts) {
  std::vector<const Verdict*> out;
  for (const Verdict& verdict : verdicts) {
    if (verdict.job == job.job && verdict.attempt == job.attempt) out.push_back(&verdict);
  }
  return out;
}

std::string job_state(const JobView& job, const std::vector<Verdict>& verdicts) {
  constexpr std::string_view kWorstFirst[] = {"hang", "rank",  "init",  "device",
                                              "slow", "stall", "pause", "healthy"};
  if (job.ended) return "ended";
  const std::vector<const Verdict*> standing = verdicts_of(job, verdicts);
  for (const std::string_view family : kWorstFirst) {
    const bool stands = std::any_of(standing.begin(), standing.end(), [&](const Verdict* verdict) {
      return family_of(verdict->kind) == family;
    });
    if (stands) return std::string(family);
  }
  return "unknown";
}

std::optional<RankProgress> progress_of(const JobView& job, RankId rank) {
  std::optional<RankProgress> best;
  for (const CommView& comm : job.comms) {
    for (const MemberView& member : comm.members) {
      const auto entered = member.entered.maybe();
      if (member.rank != rank || !entered || (best && comm.size <= best->comm_size)) continue;
      best = RankProgress{*entered, comm.size};
    }
  }
  return best;
}

std::optional<std::string> state_of(const RankView& rank) {
  if (rank.exit) {
    if (rank.exit->signal) return fmt::format("killed by signal {}", *rank.exit->signal);
    if (rank.exit->exit_code) return fmt::format("exited {}", *rank.exit->exit_code);
    return "gone";
  }
  return rank.state.match(
      [](ProcessState state) { return std::optional<std::string>(name_of(state)); },
      [](Unknown) { return std::optional<std::string>(); });
}

}  // namespace rung::view
