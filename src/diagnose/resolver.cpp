#include "diagnose/resolver.h"

#include <algorithm>
#include <array>
#include <set>

#include "diagnose/thresholds.h"
#include "timeline/movement.h"

namespace rung {
namespace {

constexpr std::array kOrder = {
    kind::kObserverDeliveryStopped,
    kind::kObserverLossy,
    kind::kObserverOverBudget,
    kind::kObserverVendorCallBlocked,
    kind::kRankDead,
    kind::kRankStopped,
    kind::kHangCollectiveMismatch,
    kind::kHangRankNotJoined,
    kind::kHangNoProgress,
    kind::kInitRankMissing,
    kind::kStallWaitingForRank,
    kind::kStallNoProgress,
    kind::kPauseCheckpoint,
    kind::kHealthyCommunicating,
    kind::kHealthyComputing,
    kind::kUnknown,
};

std::size_t place_of(std::string_view kind) {
  return static_cast<std::size_t>(std::find(kOrder.begin(), kOrder.end(), kind) - kOrder.begin());
}

bool is_family(std::string_view kind, std::string_view family) { return family_of(kind) == family; }

bool is_problem(std::string_view kind) {
  return !is_family(kind, "observer") && !is_family(kind, "healthy") && kind != kind::kUnknown;
}

// A wait: something that a cause can explain.
bool is_wait(std::string_view kind) {
  return is_family(kind, "stall") || kind == kind::kHangRankNotJoined ||
         kind == kind::kHangNoProgress;
}

bool within(const RankSet& part, const RankSet& whole) { return (part - whole).empty(); }

// A death or stop explains the waits of the same ranks, and whatever began after it.
bool event_explains(const Finding& event, const Finding& wait) {
  if (!wait.ranks.empty() && within(wait.ranks, event.ranks)) return true;
  if (!event.since || !wait.since) return true;
  return *wait.since >= *event.since - kStallAfter;
}

bool explains(const Finding& cause, const Finding& effect) {
  if (&cause == &effect) return false;
  const bool wait = is_wait(effect.kind);
  if (cause.kind == kind::kRankDead || cause.kind == kind::kRankStopped) {
    if (effect.kind == kind::kInitRankMissing) return within(effect.ranks, cause.ranks);
    return wait && event_explains(cause, effect);
  }
  if (cause.kind == kind::kHangCollectiveMismatch) {
    return wait && within(effect.ranks, cause.ranks | cause.waiting);
  }
  if (cause.kind == kind::kInitRankMissing) return wait && within(effect.ranks, cause.ranks);
  if (is_family(cause.kind, "hang")) return is_family(effect.kind, "stall");
  if (cause.kind == kind::kPauseCheckpoint) {
    return is_family(effect.kind, "stall") && within(effect.ranks, cause.ranks);
  }
  return false;
}

// Findings of one kind about the same ranks become one.
std::vector<Finding> merged(std::vector<Finding> findings) {
  std::vector<Finding> out;
  for (Finding& finding : findings) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const Finding& other) {
      return other.kind == finding.kind && other.ranks == finding.ranks;
    });
    if (same == out.end()) {
      out.push_back(std::move(finding));
      continue;
    }
    same->waiting |= finding.waiting;
    same->unobserved |= finding.unobserved;
    same->severity = std::max(same->severity, finding.severity);
    same->positive_sign = same->positive_sign || finding.positive_sign;
    if (finding.since && (!same->since || *finding.since < *same->since)) {
      same->since = finding.since;
    }
    same->facts.insert(same->facts.end(), finding.facts.begin(), finding.facts.end());
  }
  return out;
}

std::vector<Finding> unexplained(const std::vector<Finding>& findings) {
  std::vector<Finding> kept;
  for (const Finding& effect : findings) {
    const bool hidden = std::any_of(findings.begin(), findings.end(),
                                    [&](const Finding& cause) { return explains(cause, effect); });
    if (!hidden) kept.push_back(effect);
  }
  const bool problem =
      std::any_of(kept.begin(), kept.end(), [](const Finding& f) { return is_problem(f.kind); });
  const bool healthy = std::any_of(kept.begin(), kept.end(),
                                   [](const Finding& f) { return is_family(f.kind, "healthy"); });
  const bool rests_on_silence =
      std::any_of(kept.begin(), kept.end(), [](const Finding& f) { return is_wait(f.kind); });
  std::erase_if(kept, [&](const Finding& f) {
    if (is_family(f.kind, "healthy")) return problem;
    if (f.kind == kind::kUnknown) return problem || healthy;
    // Unseen launches matter only where a rank's silence is the evidence.
    return f.kind == kind::kObserverOverBudget && !rests_on_silence && (healthy || problem);
  });
  return kept;
}

Verdict verdict_of(const JobView& view, const Finding& finding) {
  Verdict out;
  out.kind = std::string(finding.kind);
  out.severity = finding.severity;
  out.job = view.job;
  out.attempt = view.attempt;
  out.ranks = finding.ranks;
  out.waiting = finding.waiting;
  out.unobserved = finding.unobserved;
  out.since = finding.since;
  out.detected = view.now;
  out.confidence = confidence_of(finding);
  out.summary = finding.summary;
  out.evidence = finding.facts;
  if (out.evidence.size() > Resolver::kFacts) {
    out.not_established.push_back(std::to_string(out.evidence.size() - Resolver::kFacts) +
                                  " more facts are not shown");
    out.evidence.resize(Resolver::kFacts);
  }
  out.not_established.insert(out.not_established.end(), finding.not_established.begin(),
                             finding.not_established.end());
  out.next = finding.next;
  return out;
}

bool comes_before(const Verdict& a, const Verdict& b) {
  const std::size_t place_a = place_of(a.kind);
  const std::size_t place_b = place_of(b.kind);
  if (place_a != place_b) return place_a < place_b;
  return a.since && b.since ? *a.since < *b.since : a.since.has_value() && !b.since.has_value();
}

}  // namespace

Confidence confidence_of(const Finding& finding) {
  if (finding.positive_sign) return Confidence::kEstablished;
  const bool only_unobserved = finding.ranks.empty() && !finding.unobserved.empty();
  std::set<EvidenceClass> classes;
  bool order_alone = true;
  for (const Fact& fact : finding.facts) {
    classes.insert(fact.evidence);
    order_alone = order_alone && fact.source == name_of(Source::kHostProbes) &&
                  fact.evidence == EvidenceClass::kKernelHost;
  }
  if (order_alone || only_unobserved) return Confidence::kPossible;
  const bool agree = classes.size() >= 2;
  return agree && finding.unobserved.empty() ? Confidence::kEstablished : Confidence::kLikely;
}

const Resolver::Standing* Resolver::standing(const Finding& finding) const {
  const auto found = std::find_if(standing_.begin(), standing_.end(), [&](const Standing& s) {
    return s.verdict.kind == finding.kind && s.verdict.ranks == finding.ranks;
  });
  return found == standing_.end() ? nullptr : &*found;
}

// Verdicts that were not found this time but may still stand.
void Resolver::hold(const JobView& view, std::vector<Verdict>& verdicts,
                    std::vector<Standing>& next) {
  const std::optional<JobNs> moved = Movement(view).newest();
  for (const Standing& before : standing_) {
    const bool pause = before.verdict.kind == kind::kPauseCheckpoint;
    const bool holdable =
        pause || is_wait(before.verdict.kind) || before.verdict.kind == kind::kInitRankMissing;
    const bool found = std::any_of(next.begin(), next.end(), [&](const Standing& now) {
      return now.verdict.kind == before.verdict.kind && now.verdict.ranks == before.verdict.ranks;
    });
    const bool has_moved = moved && *moved > before.last_found;
    const auto limit = pause ? kPauseHold : kHold;
    if (!holdable || found || has_moved || view.ended || view.now - before.last_found > limit) {
      continue;
    }
    // A checkpoint at rest takes back the stall it explains; anything else yields to what is found.
    const auto yields = [&](const Verdict& now) {
      const bool its_stall =
          pause && is_family(now.kind, "stall") && within(now.ranks, before.verdict.ranks);
      return is_problem(now.kind) && !its_stall;
    };
    if (std::any_of(verdicts.begin(), verdicts.end(), yields)) continue;
    std::erase_if(verdicts, [](const Verdict& now) { return !is_family(now.kind, "observer"); });
    verdicts.push_back(before.verdict);
    next.push_back(before);
  }
}

std::vector<Verdict> Resolver::resolve(const JobView& view, std::vector<Finding> findings) {
  if (view.attempt != attempt_) standing_.clear();
  attempt_ = view.attempt;

  std::vector<Verdict> verdicts;
  std::vector<Standing> next;
  for (const Finding& finding : unexplained(merged(std::move(findings)))) {
    Verdict verdict = verdict_of(view, finding);
    if (const Standing* before = standing(finding)) {
      verdict.detected = before->verdict.detected;
      if (before->verdict.since && verdict.since) {
        verdict.since = std::min(*before->verdict.since, *verdict.since);
      } else if (!verdict.since) {
        verdict.since = before->verdict.since;
      }
    }
    next.push_back({verdict, view.now});
    verdicts.push_back(std::move(verdict));
  }
  hold(view, verdicts, next);
  standing_ = std::move(next);
  std::stable_sort(verdicts.begin(), verdicts.end(), comes_before);
  return verdicts;
}

}  // namespace rung
