// Collective matching: who has entered which collective of a communicator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/job_view.h"

namespace rung {

// The state of one communicator's collectives. Indices are absolute: collective number k of the
// communicator is the same one on all its members.
struct CommMatch {
  std::size_t counted = 0;     // members of which the count is known
  std::size_t uncounted = 0;   // observed members that used it and of which it is not
  std::size_t unobserved = 0;  // members that are not observed; exact only if size_known
  bool size_known = false;
  bool captured = false;       // some member captured collectives into graphs: counts say little
  std::uint64_t complete = 0;  // every counted member has entered all indices below this one
  std::uint64_t frontier = 0;  // some counted member has entered all indices below this one

  // At least one counted member has not entered what another one has.
  bool pending() const { return !captured && complete < frontier; }
  // All members are counted and have entered the same collectives.
  bool all_joined() const {
    return !captured && size_known && unobserved == 0 && uncounted == 0 && complete == frontier;
  }
};
CommMatch match_collectives(const CommView& comm);

// The member's count, or nothing where it cannot be compared.
std::optional<std::uint64_t> entered_by(const MemberView& member);

// Counted members that have, or have not, entered collective `index`.
RankSet joined(const CommView& comm, std::uint64_t index);
RankSet not_joined(const CommView& comm, std::uint64_t index);

// The member's tail entry of collective `index`, if it is still there.
const TailEntry* tail_entry(const MemberView& member, std::uint64_t index);

// Members that asked the same of one collective.
struct SignatureSide {
  CollectiveSignature what;
  RankSet ranks;
};

// The first collective (lowest index) of which two members asked different things. A differing
// reduction alone is none: it makes wrong results, but it cannot block.
struct Mismatch {
  std::uint64_t index = 0;
  std::vector<SignatureSide> sides;  // at least two, largest first
  JobNs first_entered{};
  JobNs last_entered{};  // when the last of the sides' members entered it
  // The side that more than half of all members are on, if any: an index into sides.
  std::optional<std::size_t> majority;
};
std::optional<Mismatch> first_mismatch(const CommView& comm);

}  // namespace rung
