// rank.dead: the first death is the cause; a launcher tears the peers down after it.
#include <fmt/format.h>

#include <algorithm>

#include "diagnose/facts.h"
#include "diagnose/rules.h"
#include "diagnose/situation.h"
#include "diagnose/text.h"

namespace rung {
namespace {

constexpr std::int32_t kHangUp = 1;
constexpr std::int32_t kInterrupt = 2;
constexpr std::int32_t kKill = 9;
constexpr std::int32_t kTerminate = 15;
constexpr std::int32_t kExitOfSignal = 128;  // a shell's exit code for "ended by signal n" is 128+n

// The signal that ended it, also where a shell or a handler turned it into an exit code.
std::optional<std::int32_t> signal_of(const ExitView& exit) {
  if (exit.signal) return exit.signal;
  if (exit.exit_code && *exit.exit_code > kExitOfSignal && *exit.exit_code < kExitOfSignal + 65) {
    return *exit.exit_code - kExitOfSignal;
  }
  return std::nullopt;
}

bool is_failure(const ExitView& exit) {
  return exit.signal.has_value() || exit.exit_code.value_or(0) != 0;
}

// Signals by which people, schedulers and launchers end a job.
bool asked_to_end(const ExitView& exit) {
  const auto signal = signal_of(exit);
  return signal && (*signal == kTerminate || *signal == kInterrupt || *signal == kHangUp);
}

std::string exit_text(const ExitView& exit) {
  if (exit.signal) return fmt::format("ended by signal {}", *exit.signal);
  if (exit.exit_code) return fmt::format("exited with code {}", *exit.exit_code);
  return "is gone, with an exit code that was not seen";
}

struct Deaths {
  std::vector<const RankView*> first;  // the first failure; more than one only at the same moment
  bool peers_left = false;             // somebody still lives
  bool peers_followed = false;         // somebody ended after it
};

// The whole job was ended from outside: all ranks gone within moments, none by its own fault.
bool ended_from_outside(const JobView& view, JobNs first) {
  return view.ranks.size() > 1 &&
         std::all_of(view.ranks.begin(), view.ranks.end(), [&](const RankView& rank) {
           if (!rank.exit) return false;
           const bool asked = asked_to_end(*rank.exit) || signal_of(*rank.exit) == kKill;
           return asked && rank.exit->at - first <= kTeardownSpread;
         });
}

Deaths failures(const JobView& view) {
  Deaths out;
  std::optional<JobNs> first;
  for (const RankView& rank : view.ranks) {
    if (!rank.exit) {
      out.peers_left = true;
    } else if (is_failure(*rank.exit)) {
      first = first ? std::min(*first, rank.exit->at) : rank.exit->at;
    }
  }
  if (!first) return out;
  for (const RankView& rank : view.ranks) {
    if (!rank.exit) continue;
    out.peers_followed = out.peers_followed || rank.exit->at > *first;
    if (is_failure(*rank.exit) && rank.exit->at == *first) out.first.push_back(&rank);
  }
  // Seen in one tick: those that were asked to end are the torn-down ones.
  const auto own_fault = [](const RankView* rank) { return !asked_to_end(*rank->exit); };
  if (std::any_of(out.first.begin(), out.first.end(), own_fault)) {
    std::erase_if(out.first, [&](const RankView* rank) { return !own_fault(rank); });
  }
  const bool cancelled = !out.first.empty() && asked_to_end(*out.first.front()->exit) &&
                         ended_from_outside(view, *first);
  if (cancelled) out.first.clear();
  return out;
}

// Ranks that left without failing (or with a code that was not seen) while others wait for them.
std::vector<const RankView*> left_early(const Situation& situation) {
  std::vector<const RankView*> out;
  for (const Suspect& suspect : situation.suspects) {
    if (suspect.gone && situation.age(suspect.since) >= kStallAfter) out.push_back(suspect.rank);
  }
  return out;
}

Finding finding_of(const Situation& situation, const std::vector<const RankView*>& dead) {
  const JobView& view = situation.view;
  Finding finding;
  finding.kind = kind::kRankDead;
  finding.severity = Severity::kError;
  finding.positive_sign = true;
  for (const RankView* rank : dead) {
    finding.ranks.insert(rank->rank);
    finding.since = finding.since ? std::min(*finding.since, rank->exit->at) : rank->exit->at;
    finding.facts.push_back(procfs_fact(*rank, "its process " + exit_text(*rank->exit),
                                        seconds_of(view.now - rank->exit->at), "s ago"));
    const auto moved = situation.movement.of(rank->rank);
    if (!moved || rank->exit->at - *moved < kStallAfter) continue;
    finding.facts.push_back(probe_fact(*rank, "it had stood still before it ended",
                                       seconds_of(rank->exit->at - *moved), "s"));
    finding.not_established.push_back(
        fmt::format("that rank {} is the cause: a watchdog may have ended it for waiting too long",
                    rank->rank.value));
  }
  finding.waiting = situation.graph.waiting_for(finding.ranks);
  finding.summary =
      fmt::format("{} {} {} ago; {}; {}", ranks_text(finding.ranks), exit_text(*dead.front()->exit),
                  duration_text(view.now - *finding.since), last_call_text(view, *dead.front()),
                  count_text(finding.waiting.count(), "waits for it", "wait for it"));
  finding.not_established.push_back("why it ended: see its own output and the kernel log");
  finding.next.push_back(fmt::format("read the output of {}; dmesg for the out-of-memory killer",
                                     ranks_text(finding.ranks)));
  return finding;
}

}  // namespace

std::vector<Finding> judge_rank_dead(const JobView& view) {
  const bool any_gone = std::any_of(view.ranks.begin(), view.ranks.end(),
                                    [](const RankView& rank) { return rank.exit.has_value(); });
  if (!any_gone) return {};
  const Situation situation(view);
  const Deaths deaths = failures(view);
  if (!deaths.first.empty()) {
    Finding finding = finding_of(situation, deaths.first);
    const bool last = !deaths.peers_left && !deaths.peers_followed && view.ranks.size() > 1;
    if (last) {
      finding.severity = Severity::kWarning;
      finding.not_established.push_back("that it cost any work: its peers had ended before it");
    }
    return {finding};
  }
  const std::vector<const RankView*> left = left_early(situation);
  if (left.empty()) return {};
  return {finding_of(situation, left)};
}

}  // namespace rung
