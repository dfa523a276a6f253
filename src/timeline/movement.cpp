#include "timeline/movement.h"

#include "model/limits.h"

namespace rung {
namespace {

void keep_later(std::optional<JobNs>& into, JobNs at) {
  if (!into || *into < at) into = at;
}

}  // namespace

bool is_work(CallClass call) { return call != RUNG_CALL_SYNC && call != RUNG_CALL_OTHER; }

Movement::Movement(const JobView& view) {
  for (const RankView& rank : view.ranks) {
    if (const auto at = rank.last_launch_at.maybe()) note(rank.rank, *at);
    if (const auto at = rank.last_collective_at.maybe()) {
      note(rank.rank, *at);
      keep_later(newest_communication_, *at);
    }
    for (const ThreadCall& thread : rank.threads) {
      if (is_work(thread.call)) note(rank.rank, thread.entered);
    }
  }
  for (const CommView& comm : view.comms) {
    for (const MemberView& member : comm.members) {
      if (member.last_entered_at == JobNs{}) continue;
      note(member.rank, member.last_entered_at);
      keep_later(newest_communication_, member.last_entered_at);
    }
  }
  if (const auto at = view.progress.last_at.maybe()) keep_later(newest_, *at);
}

void Movement::note(RankId rank, JobNs at) {
  keep_later(newest_, at);
  if (rank.value < 0 || static_cast<std::size_t>(rank.value) >= limits::kRanksPerJob) return;
  const auto index = static_cast<std::size_t>(rank.value);
  if (index >= by_rank_.size()) by_rank_.resize(index + 1);
  keep_later(by_rank_[index], at);
}

std::optional<JobNs> Movement::of(RankId rank) const {
  const auto index = static_cast<std::size_t>(rank.value);
  return rank.value >= 0 && index < by_rank_.size() ? by_rank_[index] : std::nullopt;
}

}  // namespace rung
