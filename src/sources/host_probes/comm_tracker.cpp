#include "sources/host_probes/comm_tracker.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model/limits.h"
#include "sources/host_probes/function_table.h"

namespace rung {
namespace {

// A thread that has made no further call for this long is not in the middle of a group.
constexpr std::int64_t kHoldNs = 1'000'000'000;
constexpr std::size_t kMostPending = 64;
constexpr std::size_t kMostGone = 64;

CommId identified(std::uint64_t hash) { return {hash, CommId::Source::kMemory}; }

CollectiveSignature signature_of(const rung_collective_event& event) {
  CollectiveSignature what;
  const auto functions = function_table();
  if (event.head.function < functions.size()) {
    what.op = static_cast<CollectiveOp>(functions[event.head.function].row.op);
  }
  what.datatype = static_cast<std::uint8_t>(event.datatype);
  what.reduction = static_cast<std::uint8_t>(event.reduction);
  what.root_or_peer = event.root;
  what.count = event.count;
  return what;
}

}  // namespace

std::uint64_t unique_id_hash(std::span<const std::uint8_t> unique_id) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint8_t byte : unique_id) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

CommTracker::Comm* CommTracker::comm_at(const rung_comm_identity& identity, bool is_identified) {
  const auto known = comms_.find(identity.comm);
  if (known == comms_.end() && comms_.size() >= limits::kCommsPerRank) {
    ++over_bound_;
    return nullptr;
  }
  Comm& comm = comms_[identity.comm];
  const bool other = is_identified && comm.ref.id.source == CommId::Source::kMemory &&
                     comm.ref.id.hash != identity.hash;
  if (other) retire(comm);  // freed unseen, and its memory used again
  const bool fresh = comm.ref.pointer == 0;
  comm.ref.pointer = identity.comm;
  if (is_identified) {
    comm.ref.id = identified(identity.hash);
    comm.ref.size = identity.size;
    comm.ref.rank = identity.rank;
  }
  if (fresh) match_pending(comm);
  return &comm;
}

// Its entries are still to be told; the pointer may soon mean another communicator.
void CommTracker::retire(Comm& comm) {
  release_held(comm, true);
  if (!comm.ready.empty()) retired_.push_back(std::move(comm));
  comm = Comm{};
}

// A creation whose result variable holds this pointer has returned.
void CommTracker::match_pending(Comm& comm) {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    std::uint64_t pointer = 0;
    if (!memory_(pending_[i].out, &pointer, sizeof pointer) || pointer != comm.ref.pointer) {
      continue;
    }
    finish_pending(i, comm.ref);
    return;
  }
}

void CommTracker::finish_pending(std::size_t index, const CommRef& ref) {
  const Pending pending = pending_[index];
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
  Comm& comm = comms_[ref.pointer];
  comm.ref = ref;
  comm.since_init = true;
  comm.counted = 0;
  if (comm.ref.id.source == CommId::Source::kUnidentified) comm.ref.id = pending.comm.id;
  if (!comm.ref.size && pending.nranks > 0) comm.ref.size = pending.nranks;
  if (!comm.ref.rank && pending.rank >= 0) comm.ref.rank = pending.rank;
  // The event carries the identity that its kInitEntered had, and the pointer that later ones have.
  CommRef done = comm.ref;
  if (pending.comm.id.source != CommId::Source::kUnidentified) done.id = pending.comm.id;
  note(last_mono_ns_, CommEvent::What::kInitDone, done);
}

bool CommTracker::read_identity(const Pending& pending, std::uint64_t pointer, CommRef& out) const {
  if (pending.layout == 0 || pending.layout >= layouts_.size() || pointer == 0) return false;
  const rung_comm_layout& layout = layouts_[pending.layout];
  std::array<std::uint64_t, 2> magic{};
  struct {
    std::uint64_t hash;
    std::int32_t rank;
    std::int32_t size;
  } identity{};
  std::int32_t init_state = -1;
  if (!memory_(pointer, &magic[0], 8) || !memory_(pointer + layout.end_magic, &magic[1], 8) ||
      !memory_(pointer + layout.identity, &identity, sizeof identity) ||
      !memory_(pointer + layout.init_state, &init_state, sizeof init_state)) {
    return false;
  }
  if (magic[0] != RUNG_NCCL_MAGIC || magic[1] != RUNG_NCCL_MAGIC || init_state != 0 ||
      identity.rank < 0 || identity.rank >= identity.size) {
    return false;
  }
  if (pending.rank >= 0 && (pending.rank != identity.rank || pending.nranks != identity.size)) {
    return false;
  }
  out.pointer = pointer;
  out.id = identified(identity.hash);
  out.size = identity.size;
  out.rank = identity.rank;
  return true;
}

// Creations that have returned without their communicator having been used yet.
void CommTracker::poll_pending() {
  for (std::size_t i = 0; i < pending_.size();) {
    std::uint64_t pointer = 0;
    CommRef ref;
    const bool done = memory_(pending_[i].out, &pointer, sizeof pointer) &&
                      read_identity(pending_[i], pointer, ref);
    // The variable may still hold an older communicator.
    const auto known = comms_.find(pointer);
    if (!done || (known != comms_.end() && known->second.ref.id == ref.id) ||
        comms_.size() >= limits::kCommsPerRank) {
      ++i;
      continue;
    }
    comms_[pointer] = Comm{};
    finish_pending(i, ref);
  }
}

void CommTracker::on_collective(const rung_collective_event& event) {
  last_mono_ns_ = static_cast<std::int64_t>(event.head.mono_ns);
  Comm* comm = comm_at(event.comm, (event.flags & RUNG_EVENT_IDENTIFIED) != 0);
  if (comm == nullptr) return;
  Entry entry;
  entry.mono_ns = static_cast<std::int64_t>(event.head.mono_ns);
  entry.what = signature_of(event);
  entry.captured = (event.flags & RUNG_EVENT_CAPTURED) != 0;
  if (entry.captured || (event.flags & RUNG_EVENT_NUMBERED) == 0) {
    comm->ready.push_back(entry);
    return;
  }
  number(*comm, event, entry);
}

void CommTracker::number(Comm& comm, const rung_collective_event& event, Entry entry) {
  const bool alone = comm.ref.size == 1;  // NCCL gives no numbers to a communicator of one
  if ((event.flags & RUNG_EVENT_BASE) == 0 || alone) {
    if (!comm.numbers_read && comm.counted && !alone) entry.index = (*comm.counted)++;
    comm.ready.push_back(entry);
    return;
  }
  comm.numbers_read = true;
  const bool begins = event.position == 0;
  if (begins && !comm.next) {
    comm.confirmed = comm.since_init;
    comm.group_ok = true;
  } else if (begins) {
    comm.group_ok = event.base >= *comm.next;
    // Only if exactly what was held has been launched since are the numbers of the held ones right.
    if (!comm.confirmed) release_held(comm, event.base == *comm.next);
    comm.confirmed = comm.confirmed || comm.group_ok;
  }
  const std::uint64_t index = event.base + event.position;
  comm.next = index + 1;
  if (comm.group_ok) entry.index = index;
  (comm.confirmed || !comm.group_ok ? comm.ready : comm.held).push_back(entry);
}

void CommTracker::release_held(Comm& comm, bool keep_index) {
  for (Entry& entry : comm.held) {
    if (!keep_index) entry.index.reset();
    comm.ready.push_back(entry);
  }
  comm.held.clear();
}

void CommTracker::on_comm(const rung_comm_event& event) {
  last_mono_ns_ = static_cast<std::int64_t>(event.head.mono_ns);
  const auto functions = function_table();
  if (event.head.function >= functions.size()) return;
  const auto action = static_cast<rung_nccl_action>(functions[event.head.function].row.action);
  if (action == RUNG_NCCL_DESTROY || action == RUNG_NCCL_ABORT) {
    Comm* comm = comm_at(event.comm, (event.flags & RUNG_EVENT_IDENTIFIED) != 0);
    if (comm == nullptr) return;
    note(last_mono_ns_,
         action == RUNG_NCCL_ABORT ? CommEvent::What::kAborted : CommEvent::What::kDestroyed,
         comm->ref);
    if (gone_.size() >= kMostGone) gone_.erase(gone_.begin());
    gone_.emplace_back(event.comm.comm, event.comm.hash);
    retire(*comm);
    comms_.erase(event.comm.comm);
    return;
  }
  Pending pending;
  pending.out = event.out;
  pending.layout = event.layout;
  pending.nranks = event.nranks;
  pending.rank = event.rank;
  if (event.has_unique_id != 0) {
    pending.comm.id = {unique_id_hash(event.unique_id), CommId::Source::kUniqueId};
  }
  if (event.nranks > 0) pending.comm.size = event.nranks;
  if (event.rank >= 0) pending.comm.rank = event.rank;
  note(last_mono_ns_,
       action == RUNG_NCCL_INIT ? CommEvent::What::kInitEntered : CommEvent::What::kSplitEntered,
       pending.comm);
  // An older creation into the same variable can no longer be told apart.
  std::erase_if(pending_, [&](const Pending& old) { return old.out == pending.out; });
  if (pending_.size() >= kMostPending) {
    pending_.erase(pending_.begin());
    ++over_bound_;
  }
  if (pending.out != 0) pending_.push_back(pending);
}

void CommTracker::on_comm_seen(const rung_comm_event& event) {
  last_mono_ns_ = static_cast<std::int64_t>(event.head.mono_ns);
  comm_at(event.comm, (event.flags & RUNG_EVENT_IDENTIFIED) != 0);
}

void CommTracker::note(std::int64_t mono_ns, CommEvent::What what, const CommRef& comm) {
  events_.push_back({mono_ns, CommEvent{what, comm}});
}

void CommTracker::tell(Comm& comm, std::int64_t unix_minus_mono, bool lost,
                       std::vector<CollectiveBatch>& out) {
  std::optional<std::uint64_t> following;  // number that continues the open batch
  bool open = false;
  for (const Entry& ready : comm.ready) {
    const bool own_count_spoilt = lost && !comm.numbers_read;
    const auto index = own_count_spoilt ? std::nullopt : ready.index;
    if (!open || index != following || ready.captured != out.back().captured) {
      out.push_back({comm.ref, index, ready.captured, {}});
      open = true;
    }
    following = index ? std::optional(*index + 1) : std::nullopt;
    out.back().entries.push_back({unix_ns(ready.mono_ns + unix_minus_mono), ready.what});
  }
  comm.ready.clear();
}

std::vector<CollectiveBatch> CommTracker::settle(std::int64_t mono_now,
                                                 std::int64_t unix_minus_mono, bool lost) {
  last_mono_ns_ = mono_now;
  poll_pending();
  std::vector<CollectiveBatch> out;
  for (Comm& comm : retired_) tell(comm, unix_minus_mono, lost, out);
  retired_.clear();
  for (auto& [pointer, comm] : comms_) {
    if (lost) comm.counted.reset();
    if (!comm.held.empty() && comm.held.back().mono_ns + kHoldNs <= mono_now) {
      comm.confirmed = true;
      release_held(comm, true);
    }
    tell(comm, unix_minus_mono, lost, out);
  }
  return out;
}

std::vector<CommTracker::TimedEvent> CommTracker::take_events() {
  return std::exchange(events_, {});
}

CommRef CommTracker::reference(const rung_peer_key& key) const {
  const auto known = comms_.find(key.comm);
  if (known != comms_.end() &&
      (key.comm_hash == 0 || known->second.ref.id == identified(key.comm_hash))) {
    return known->second.ref;
  }
  CommRef ref;
  ref.pointer = key.comm;
  if (key.comm_hash != 0) ref.id = identified(key.comm_hash);
  return ref;
}

bool CommTracker::seen_since_init(std::uint64_t comm) const {
  const auto known = comms_.find(comm);
  return known != comms_.end() && known->second.since_init;
}

bool CommTracker::is_gone(const rung_peer_key& key) const {
  return std::any_of(gone_.begin(), gone_.end(), [&](const auto& gone) {
    return gone.first == key.comm && gone.second == key.comm_hash;
  });
}

}  // namespace rung
