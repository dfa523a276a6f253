#include "diagnose/no_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/activity.h"
#include "diagnose/facts.h"
#include "diagnose/text.h"
#include "diagnose/wording.h"
#include "timeline/matching.h"

namespace rung {
namespace {

std::vector<std::string> what_is_not_joined(const Situation& situation, const NoProgress& found) {
  const JobView& view = situation.view;
  std::vector<std::string> out;
  if (!found.cycles.empty()) out.push_back("which of the ranks that wait for each other is wrong");
  if (!situation.unclear_unseen.empty()) {
    out.push_back(fmt::format("{} not joined, but may wait where counts do not show it",
                              ranks_text(situation.unclear_unseen) +
                                  (situation.unclear_unseen.count() == 1 ? " has" : " have")));
  }
  if (!situation.unclear_behind_unobserved.empty()) {
    out.push_back(fmt::format("whether {} joined: it was not seen to, but may wait unseen",
                              ranks_text(situation.unclear_behind_unobserved)));
  }
  if (view.unidentified_comms) {
    out.push_back("who joined on communicators that could not be identified");
  }
  if (!situation.blind.empty()) {
    out.push_back(
        fmt::format("what {} did: no call of theirs is seen", ranks_text(situation.blind)));
  }
  if (!view.unobserved().empty() || !view.world_size.maybe()) {
    out.push_back("what the unobserved ranks did");
  }
  const bool captured = std::any_of(view.comms.begin(), view.comms.end(), [](const CommView& c) {
    return match_collectives(c).captured;
  });
  if (captured) out.push_back("who joined inside CUDA graphs: replays are not counted");
  const bool open = std::any_of(view.comms.begin(), view.comms.end(), [](const CommView& c) {
    const CommMatch match = match_collectives(c);
    return !match.captured && match.frontier > 0 && !match.all_joined();
  });
  if (open && out.empty()) out.push_back("that all members joined: some counts are missing");
  return out;
}

std::vector<std::string> what_is_against_a_hang(const Situation& situation) {
  std::vector<std::string> out;
  for (const RankView& rank : situation.view.ranks) {
    if (rank.exit || out.size() >= kDetailedRanks) continue;
    const Doing doing = doing_of(rank);
    if (doing.what == Doing::What::kInactive) continue;
    out.push_back(fmt::format("that rank {} is inactive: {}", rank.rank.value, doing.why));
  }
  if (situation.queued != Situation::Queued::kShown) {
    out.push_back("that work is queued on the GPUs: the job may wait for requests");
  }
  return out;
}

bool in_communicator_init(const JobView& view) {
  return std::any_of(view.comms.begin(), view.comms.end(), [](const CommView& comm) {
    return std::any_of(comm.members.begin(), comm.members.end(),
                       [](const MemberView& member) { return member.initializing; });
  });
}

}  // namespace

std::optional<NoProgress> find_no_progress(const Situation& situation) {
  if (!situation.still_since || !situation.suspects.empty() ||
      !situation.waiting_for_unobserved.empty() || situation.queued == Situation::Queued::kNone) {
    return std::nullopt;
  }
  NoProgress out;
  for (const RankView& rank : situation.view.ranks) {
    if (!rank.exit && situation.stands_still(rank)) out.waiting.insert(rank.rank);
  }
  if (out.waiting.empty()) return std::nullopt;
  out.cycles = situation.graph.cycles();
  out.not_all_joined = what_is_not_joined(situation, out);
  out.not_a_hang = what_is_against_a_hang(situation);
  if (in_communicator_init(situation.view)) {
    out.not_a_hang.push_back(
        "that it hangs: communicators are being made, which takes minutes "
        "in large jobs");
  }
  return out;
}

Finding no_progress_finding(const Situation& situation, const NoProgress& found) {
  const JobView& view = situation.view;
  Finding finding;
  finding.waiting = found.waiting;
  finding.since = situation.still_since;
  const std::string age = duration_text(situation.age(*situation.still_since));
  if (!found.cycles.empty()) {
    finding.summary = fmt::format("{} wait for each other; no rank has made progress for {}",
                                  ranks_text(found.cycles.front()), age);
  } else if (found.not_all_joined.empty()) {
    finding.summary =
        fmt::format("all ranks have joined every collective and none has made progress for {}; {}",
                    age, last_call_text(view, *view.find(found.waiting.ranks().front())));
  } else {
    finding.summary = fmt::format("no rank has made progress for {}", age);
  }
  finding.facts.push_back(
      peers_fact(count_text(found.waiting.count(), "stands", "stand") + " still",
                 static_cast<double>(found.waiting.count()), "ranks"));
  add_waiting_facts(situation, found.waiting, finding);
  finding.not_established = found.not_all_joined;
  finding.not_established.push_back(
      "whether a kernel runs long or none completes: device time is not measured");
  add_next_steps(view, found.waiting, finding);
  return finding;
}

}  // namespace rung
