#include "diagnose/wording.h"

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/facts.h"
#include "diagnose/text.h"

namespace rung {

JobNs earliest(const std::vector<Suspect>& suspects) {
  return std::min_element(suspects.begin(), suspects.end(),
                          [](const Suspect& a, const Suspect& b) { return a.since < b.since; })
      ->since;
}

std::string not_joined_text(const Situation& situation, const std::vector<Suspect>& suspects,
                            std::size_t waiting) {
  const Suspect& first = suspects.front();
  const WaitPoint& point = situation.graph.points()[first.point];
  const RankSet ranks = ranks_of(suspects);
  return fmt::format(
      "{} {} not joined {} for {}; {}; {}", ranks_text(ranks), ranks.count() == 1 ? "has" : "have",
      point_text(situation.view, point), duration_text(situation.age(earliest(suspects))),
      last_call_text(situation.view, *first.rank), count_text(waiting, "waits", "wait"));
}

void add_suspect_facts(const Situation& situation, const std::vector<Suspect>& suspects,
                       Finding& finding) {
  const JobView& view = situation.view;
  for (std::size_t i = 0; i < std::min(suspects.size(), kDetailedRanks); ++i) {
    const Suspect& suspect = suspects[i];
    const WaitPoint& point = situation.graph.points()[suspect.point];
    if (!suspect.gone) finding.facts.push_back(last_call_fact(view, *suspect.rank));
    if (const auto fact = count_fact(view, point, suspect.rank->rank)) {
      finding.facts.push_back(*fact);
    }
    if (const auto fact = state_fact(*suspect.rank); fact && !suspect.gone) {
      finding.facts.push_back(*fact);
    }
    const RankSet waiters = situation.graph.waiters(point);
    finding.facts.push_back(
        peers_fact(fmt::format("{} for rank {} in {}", count_text(waiters.count(), "waits", "wait"),
                               suspect.rank->rank.value, point_text(view, point)),
                   static_cast<double>(waiters.count()), "ranks"));
  }
}

void add_waiting_facts(const Situation& situation, const RankSet& ranks, Finding& finding) {
  std::size_t told = 0;
  for (const RankId id : ranks.ranks()) {
    const RankView* rank = situation.view.find(id);
    if (rank == nullptr || rank->exit) continue;
    if (told++ == kDetailedRanks) break;
    finding.facts.push_back(last_call_fact(situation.view, *rank));
    if (const auto fact = busy_device_fact(*rank)) finding.facts.push_back(*fact);
  }
}

void add_next_steps(const JobView& view, const RankSet& ranks, Finding& finding) {
  std::size_t told = 0;
  for (const RankId id : ranks.ranks()) {
    const RankView* rank = view.find(id);
    if (rank == nullptr || rank->exit) continue;
    if (told++ == kDetailedRanks) break;
    finding.next.push_back(fmt::format("py-spy dump --pid {}{}", rank->process.pid,
                                       rank->host.empty() ? "" : " on " + rank->host));
  }
  finding.next.push_back(fmt::format("rung why {} --json", view.job.text));
}

}  // namespace rung
