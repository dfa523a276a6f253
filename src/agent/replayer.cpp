#include "agent/replayer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/clock.h"

namespace rung {
namespace {

constexpr std::size_t kDifferencesKept = 10;

bool same_claim(const Verdict& a, const Verdict& b) {
  return a.kind == b.kind && a.job == b.job && a.ranks == b.ranks;
}

bool among(const Verdict& verdict, const std::vector<Verdict>& list) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Verdict& other) { return same_claim(verdict, other); });
}

std::set<std::string> claims(const std::vector<Verdict>& verdicts) {
  std::set<std::string> out;
  for (const Verdict& verdict : verdicts) {
    out.insert(fmt::format("{} {} [{}]", verdict.job.text, verdict.kind, verdict.ranks.text()));
  }
  return out;
}

void compare(const RecordedTick& tick, const std::vector<Verdict>& replayed, ReplayOutcome& out) {
  const std::set<std::string> live = claims(tick.verdicts);
  const std::set<std::string> again = claims(replayed);
  if (live == again) return;
  ++out.differing_ticks;
  if (out.differences.size() >= kDifferencesKept) return;
  out.differences.push_back(fmt::format("{}: live {}; replayed {}", rfc3339(ns_of(tick.now)),
                                        fmt::join(live, ", "), fmt::join(again, ", ")));
}

void note_changes(UnixNs now, const std::vector<Verdict>& before, const std::vector<Verdict>& after,
                  ReplayOutcome& out) {
  for (const Verdict& verdict : after) {
    if (!among(verdict, before)) out.changes.push_back({now, true, verdict});
    const auto known = std::find_if(out.ever.begin(), out.ever.end(), [&](const Verdict& other) {
      return same_claim(verdict, other);
    });
    if (known == out.ever.end()) {
      out.ever.push_back(verdict);
    } else {
      *known = verdict;
    }
  }
  for (const Verdict& verdict : before) {
    if (!among(verdict, after)) out.changes.push_back({now, false, verdict});
  }
}

}  // namespace

Result<ReplayOutcome> replay_recording(const std::string& path) {
  Result<std::unique_ptr<RecordingReader>> reader = RecordingReader::open(path);
  if (!reader) return tl::unexpected<Error>(reader.error());
  ReplayOutcome out;
  out.meta = (*reader)->meta();
  Judge judge;
  RecordedTick tick;
  std::vector<Verdict> before;
  while (true) {
    const Result<bool> more = (*reader)->next_tick(tick);
    if (!more) return tl::unexpected<Error>(more.error());
    if (!*more) break;
    for (const Observation& observation : tick.observations) judge.absorb(observation);
    const std::vector<Verdict>& now = judge.tick(tick.now);
    ++out.ticks;
    out.observations += tick.observations.size();
    out.dropped += tick.dropped;
    // The first tick holds a state that grew before the recording began.
    if (out.ticks > 1) compare(tick, now, out);
    note_changes(tick.now, before, now, out);
    before = now;
  }
  out.standing = judge.verdicts();
  out.views = judge.views();
  return out;
}

}  // namespace rung
