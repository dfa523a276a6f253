#include "job/comm_state.h"

#include "model/limits.h"

namespace rung {
namespace {

JobNs on_job_axis(UnixNs t) { return job_ns(ns_of(t)); }

// Keeps what the newer reference does not know: a later look may lack the size or the rank.
void merge(CommRef& into, const CommRef& newer) {
  into.pointer = newer.pointer;
  if (newer.id.source >= into.id.source) into.id = newer.id;
  if (newer.size) into.size = newer.size;
  if (newer.rank) into.rank = newer.rank;
}

}  // namespace

CommState CommState::made(const CommRef& comm) {
  CommState out;
  out.comm = comm;
  out.entered = 0;
  out.peers_comparable = true;
  if (comm.id.source == CommId::Source::kUniqueId) out.made_as = comm.id;
  return out;
}

void CommState::absorb(const CollectiveBatch& batch) {
  // A freed communicator's address can serve the next one: another identity means another history.
  const bool another = comm.id.source != CommId::Source::kUnidentified &&
                       batch.comm.id.source == comm.id.source && batch.comm.id != comm.id;
  if (another) *this = CommState{};
  merge(comm, batch.comm);
  closed = false;
  captured = captured || batch.captured;
  if (batch.entries.empty()) return;
  last_entered = batch.entries.back().entered;
  if (!batch.first_index) {
    entered.reset();
    tail.clear();
    return;
  }
  std::uint64_t index = *batch.first_index;
  if (!tail.empty() && tail.back().index + 1 != index) tail.clear();
  for (const CollectiveEntry& entry : batch.entries) {
    tail.push_back(TailEntry{index++, on_job_axis(entry.entered), entry.what});
    if (tail.size() > limits::kTailPerComm) tail.pop_front();
  }
  entered = index;
}

void CommState::absorb(const PointToPointStats& stats) {
  merge(comm, stats.comm);
  peers_comparable = stats.since_init;
  for (const PointToPointStats::Peer& peer : stats.peers) {
    peers[peer.peer] = PeerTraffic{peer.peer, peer.sends, peer.receives, on_job_axis(peer.last)};
    if (!last_entered || *last_entered < peer.last) last_entered = peer.last;
  }
}

MemberView CommState::view(RankId rank) const {
  MemberView member;
  member.rank = rank;
  member.comm_rank = comm.rank.value_or(-1);
  if (entered) {
    member.entered = *entered;
  } else {
    member.entered = Unknown{"no absolute index could be read"};
  }
  if (last_entered) member.last_entered_at = on_job_axis(*last_entered);
  member.tail.assign(tail.begin(), tail.end());
  for (const auto& [number, traffic] : peers) member.peers.push_back(traffic);
  member.peers_comparable = peers_comparable;
  member.captured = captured;
  member.closed = closed;
  return member;
}

}  // namespace rung
