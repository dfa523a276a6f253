// CommState: what one process has done on one of its communicators.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "model/job_view.h"
#include "model/observation.h"

namespace rung {

struct CommState {
  CommRef comm;
  // How many collectives were entered, counted from the communicator's creation; unknown when the
  // newest batch carried no absolute index.
  std::optional<std::uint64_t> entered;
  std::optional<UnixNs> last_entered;
  std::deque<TailEntry> tail;  // ascending by index, at most limits::kTailPerComm
  bool captured = false;
  bool closed = false;
  std::map<std::int32_t, PeerTraffic> peers;
  bool peers_comparable = false;

  // Its identity at its creation, where that was seen and another one has replaced it since.
  std::optional<CommId> made_as;

  // A communicator that was just made: nothing was entered yet.
  static CommState made(const CommRef& comm);

  void absorb(const CollectiveBatch& batch);
  void absorb(const PointToPointStats& stats);
  MemberView view(RankId rank) const;
};

// A communicator's creation that was entered and of which no return was seen.
struct PendingInit {
  CommRef comm;
  UnixNs entered{};
};

}  // namespace rung
