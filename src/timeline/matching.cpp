#include "timeline/matching.h"

#include <algorithm>
#include <unordered_map>

namespace rung {
namespace {

// What must agree on all members for the collective to complete.
CollectiveSignature blocking_part(CollectiveSignature what) {
  what.reduction = 0;
  return what;
}

// Indices of a member's tail are absolute only when its count is.
bool has_absolute_tail(const MemberView& member) {
  return entered_by(member).has_value() && !member.tail.empty();
}

}  // namespace

std::optional<std::uint64_t> entered_by(const MemberView& member) {
  if (member.captured || member.initializing) return std::nullopt;
  return member.entered.maybe();
}

CommMatch match_collectives(const CommView& comm) {
  CommMatch out;
  out.size_known = comm.size > 0 && static_cast<std::size_t>(comm.size) >= comm.members.size();
  out.unobserved = out.size_known ? static_cast<std::size_t>(comm.size) - comm.members.size() : 0;
  for (const MemberView& member : comm.members) {
    out.captured = out.captured || member.captured;
    const auto entered = entered_by(member);
    if (!entered) {
      // A member of which only point-to-point calls are known takes part in no collective so far.
      const bool only_peers = member.tail.empty() && !member.peers.empty();
      if (!only_peers) ++out.uncounted;
      continue;
    }
    out.complete = out.counted == 0 ? *entered : std::min(out.complete, *entered);
    out.frontier = std::max(out.frontier, *entered);
    ++out.counted;
  }
  // Where others do collectives, a member known by its point-to-point calls only is uncounted.
  if (out.frontier > 0) out.uncounted = comm.members.size() - out.counted;
  return out;
}

RankSet joined(const CommView& comm, std::uint64_t index) {
  RankSet out;
  for (const MemberView& member : comm.members) {
    if (const auto entered = entered_by(member); entered && *entered > index) {
      out.insert(member.rank);
    }
  }
  return out;
}

RankSet not_joined(const CommView& comm, std::uint64_t index) {
  RankSet out;
  for (const MemberView& member : comm.members) {
    if (const auto entered = entered_by(member); entered && *entered <= index) {
      out.insert(member.rank);
    }
  }
  return out;
}

const TailEntry* tail_entry(const MemberView& member, std::uint64_t index) {
  const auto found = std::lower_bound(
      member.tail.begin(), member.tail.end(), index,
      [](const TailEntry& entry, std::uint64_t wanted) { return entry.index < wanted; });
  return found != member.tail.end() && found->index == index ? &*found : nullptr;
}

std::optional<Mismatch> first_mismatch(const CommView& comm) {
  std::unordered_map<std::uint64_t, CollectiveSignature> first_seen;
  std::optional<std::uint64_t> index;
  for (const MemberView& member : comm.members) {
    if (!has_absolute_tail(member)) continue;
    for (const TailEntry& entry : member.tail) {
      if (index && entry.index >= *index) break;
      const auto [known, added] = first_seen.try_emplace(entry.index, blocking_part(entry.what));
      if (!added && known->second != blocking_part(entry.what)) index = entry.index;
    }
  }
  if (!index) return std::nullopt;

  Mismatch out;
  out.index = *index;
  for (const MemberView& member : comm.members) {
    const TailEntry* entry = has_absolute_tail(member) ? tail_entry(member, *index) : nullptr;
    if (entry == nullptr) continue;
    out.first_entered =
        out.sides.empty() ? entry->entered : std::min(out.first_entered, entry->entered);
    out.last_entered = std::max(out.last_entered, entry->entered);
    const CollectiveSignature what = blocking_part(entry->what);
    auto side = std::find_if(out.sides.begin(), out.sides.end(),
                             [&](const SignatureSide& s) { return s.what == what; });
    if (side == out.sides.end()) side = out.sides.insert(side, SignatureSide{what, {}});
    side->ranks.insert(member.rank);
  }
  std::stable_sort(out.sides.begin(), out.sides.end(),
                   [](const SignatureSide& a, const SignatureSide& b) {
                     return a.ranks.count() > b.ranks.count();
                   });
  const std::size_t members =
      std::max(comm.members.size(), static_cast<std::size_t>(std::max(comm.size, 0)));
  if (2 * out.sides.front().ranks.count() > members) out.majority = 0;
  return out;
}

}  // namespace rung
