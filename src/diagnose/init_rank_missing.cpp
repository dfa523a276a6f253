// init.rank_missing: a communicator is being made and an observed rank has not come.
#include <fmt/format.h>

#include <algorithm>

#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/situation.h"
#include "diagnose/text.h"
#include "diagnose/wording.h"

namespace rung {
namespace {

struct Waiting {
  RankSet ranks;
  std::optional<JobNs> since;  // the first one's entry
  JobNs last{};                // the last one's
};

Waiting initializing(const JobView& view, const CommView& comm) {
  Waiting out;
  for (const MemberView& member : comm.members) {
    const RankView* rank = view.find(member.rank);
    if (!member.initializing || rank == nullptr || rank->exit) continue;
    out.ranks.insert(member.rank);
    out.last = std::max(out.last, member.init_entered_at);
    out.since = out.since ? std::min(*out.since, member.init_entered_at) : member.init_entered_at;
  }
  return out;
}

// Its arrival would have been seen: its probes were there before the others came, or it has gone
// on working long after they did, which a rank inside init does not. That no call of it was seen
// at all is no objection here: it may not have come to its first one.
bool arrival_would_show(const Movement& movement, const RankView& rank, const Waiting& waiting) {
  if (probes_failed(rank)) return false;
  const bool there_before = rank.probes_since.match(
      [&](JobNs since) { return since <= *waiting.since; }, [](Unknown) { return false; });
  if (there_before) return true;
  const auto moved = movement.of(rank.rank);
  return moved && *moved - waiting.last >= kStallAfter;
}

std::vector<Finding> judge(const JobView& view, const CommView& comm) {
  const Waiting waiting = initializing(view, comm);
  if (!waiting.since || view.now - *waiting.since < kInitMissingWarning) return {};
  if (!comm.comm_ranks_are_job_ranks) return {};
  RankSet missing = RankSet::first(static_cast<std::size_t>(std::max(comm.size, 0)));
  for (const MemberView& member : comm.members) missing.erase(member.rank);

  const Movement movement(view);
  Finding finding;
  const RankView* first = nullptr;
  for (const RankId id : missing.ranks()) {
    const RankView* rank = view.find(id);
    if (rank != nullptr && (rank->exit || arrival_would_show(movement, *rank, waiting))) {
      finding.ranks.insert(id);
      if (first == nullptr) first = rank;
    } else {
      finding.unobserved.insert(id);
    }
  }
  // Ranks that cannot be seen may well have come: a slow init is no missing rank.
  if (first == nullptr) return {};
  finding.kind = kind::kInitRankMissing;
  finding.severity =
      view.now - *waiting.since >= kInitMissingError ? Severity::kError : Severity::kWarning;
  finding.waiting = waiting.ranks;
  finding.since = waiting.since;
  finding.summary =
      fmt::format("{} {} not come to the making of {} ({} members); {} in it for {}; {}",
                  ranks_text(finding.ranks), finding.ranks.count() == 1 ? "has" : "have",
                  comm_text(comm), comm.size, count_text(waiting.ranks.count(), "is", "are"),
                  duration_text(view.now - *waiting.since), last_call_text(view, *first));
  finding.facts.push_back(
      peers_fact(count_text(waiting.ranks.count(), "is", "are") + " in communicator init",
                 static_cast<double>(waiting.ranks.count()), "ranks"));
  std::size_t told = 0;
  for (const RankId id : finding.ranks.ranks()) {
    if (told++ == kDetailedRanks) break;
    const RankView& rank = *view.find(id);
    finding.facts.push_back(last_call_fact(view, rank));
    if (const auto fact = state_fact(rank)) finding.facts.push_back(*fact);
  }
  finding.not_established.push_back("why it has not come: it may still load data or code");
  if (!finding.unobserved.empty()) {
    finding.not_established.push_back(
        fmt::format("whether {} came: they are not observed", ranks_text(finding.unobserved)));
  }
  add_next_steps(view, finding.ranks, finding);
  return {finding};
}

}  // namespace

std::vector<Finding> judge_init_rank_missing(const JobView& view) {
  std::vector<Finding> out;
  for (const CommView& comm : view.comms) {
    for (Finding& finding : judge(view, comm)) out.push_back(std::move(finding));
  }
  return out;
}

}  // namespace rung
