#include "agent/judge.h"

#include <algorithm>

#include "diagnose/diagnose.h"

namespace rung {

const std::vector<Verdict>& Judge::tick(UnixNs now) {
  table_.age(now);
  views_ = table_.views(now);
  verdicts_.clear();
  for (const JobView& view : views_) {
    std::vector<Verdict> found = diagnose(view, resolvers_[view.job]);
    std::move(found.begin(), found.end(), std::back_inserter(verdicts_));
  }
  std::erase_if(resolvers_, [&](const auto& entry) {
    return std::none_of(views_.begin(), views_.end(),
                        [&](const JobView& view) { return view.job == entry.first; });
  });
  last_tick_ = job_ns(ns_of(now));
  remember(last_tick_);
  return verdicts_;
}

void Judge::remember(JobNs now) {
  for (const Verdict& verdict : verdicts_) {
    const auto same = std::find_if(history_.rbegin(), history_.rend(), [&](const Stood& stood) {
      return stood.verdict.kind == verdict.kind && stood.verdict.job == verdict.job &&
             stood.verdict.detected == verdict.detected && stood.verdict.ranks == verdict.ranks;
    });
    if (same != history_.rend()) {
      same->verdict = verdict;
      same->to = now;
    } else {
      history_.push_back({verdict, now, now});
    }
  }
  while (!history_.empty() &&
         (history_.size() > kHistoryEntries || history_.front().to + kHistory < now)) {
    history_.pop_front();
  }
}

std::vector<Verdict> Judge::verdicts_at(UnixNs t) const {
  const JobNs when = job_ns(ns_of(t));
  if (when >= last_tick_) return verdicts_;
  std::vector<Verdict> out;
  for (const Stood& stood : history_) {
    if (stood.from <= when && when <= stood.to) out.push_back(stood.verdict);
  }
  return out;
}

}  // namespace rung
