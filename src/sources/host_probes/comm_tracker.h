// CommTracker: turns the NCCL events of one process into collective batches with absolute numbers.
//
// An absolute number is what the communicator's own sequence numbers say, when they could be read:
// their sum at the first collective of a group, plus the position inside the group. Two things can
// make that wrong, and then the entry gets no number: a group that was already open when the
// probes came (its later members would seem to start a group of their own at an unmoved base), and
// communicators whose numbers lag (non-blocking) or stand still (symmetric kernels). So a number is
// given only where the base has moved past everything numbered before; the first group of a
// communicator that was not seen from its creation is held back until the next one confirms it or
// its thread has been silent for a second.
//
// Where the numbers cannot be read but the creation was seen, collectives are counted from there,
// until the first loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bpf/host_probes.h"
#include "model/ids.h"
#include "model/observation.h"

namespace rung {

// Copies bytes out of the process; false when any of them cannot be read.
using ReadMemory = std::function<bool(std::uint64_t address, void* out, std::size_t bytes)>;

class CommTracker {
 public:
  // `layouts`: the layout table, by number; it must outlive the tracker.
  CommTracker(std::span<const rung_comm_layout> layouts, ReadMemory memory)
      : layouts_(layouts), memory_(std::move(memory)) {}

  // Events in ring order. CommEvents go to take_events(), collectives to settle().
  void on_collective(const rung_collective_event& event);
  void on_comm(const rung_comm_event& event);       // RUNG_EVENT_COMM
  void on_comm_seen(const rung_comm_event& event);  // RUNG_EVENT_COMM_SEEN

  // Ends a drain. `lost`: events of this process were lost since the last one. `unix_minus_mono`:
  // what to add to CLOCK_MONOTONIC.
  std::vector<CollectiveBatch> settle(std::int64_t mono_now, std::int64_t unix_minus_mono,
                                      bool lost);

  struct TimedEvent {
    std::int64_t mono_ns = 0;
    CommEvent event;
  };
  std::vector<TimedEvent> take_events();

  // The communicator behind a point-to-point key; identified by the key where it is not known.
  CommRef reference(const rung_peer_key& key) const;
  bool seen_since_init(std::uint64_t comm) const;
  // Keys whose communicator has been destroyed; once each.
  bool is_gone(const rung_peer_key& key) const;

  std::uint64_t over_bound() const { return over_bound_; }

 private:
  struct Entry {
    std::int64_t mono_ns = 0;
    CollectiveSignature what;
    std::optional<std::uint64_t> index;
    bool captured = false;
  };
  struct Comm {
    CommRef ref;
    bool since_init = false;
    bool numbers_read = false;             // its sequence numbers could be read at least once
    bool confirmed = false;                // the base has been seen to move
    bool group_ok = false;                 // the current group begins at a credible base
    std::optional<std::uint64_t> next;     // base + members of the last group
    std::optional<std::uint64_t> counted;  // next number where we count ourselves
    std::vector<Entry> held;               // of the first group, until confirmed
    std::vector<Entry> ready;              // of this drain
  };
  struct Pending {
    std::uint64_t out = 0;
    CommRef comm;
    std::uint32_t layout = 0;
    std::int32_t nranks = 0;
    std::int32_t rank = -1;
  };

  Comm* comm_at(const rung_comm_identity& identity, bool identified);
  void retire(Comm& comm);
  static void tell(Comm& comm, std::int64_t unix_minus_mono, bool lost,
                   std::vector<CollectiveBatch>& out);
  void match_pending(Comm& comm);
  void poll_pending();
  void finish_pending(std::size_t index, const CommRef& comm);
  void number(Comm& comm, const rung_collective_event& event, Entry entry);
  void release_held(Comm& comm, bool keep_index);
  bool read_identity(const Pending& pending, std::uint64_t pointer, CommRef& out) const;
  void note(std::int64_t mono_ns, CommEvent::What what, const CommRef& comm);

  std::span<const rung_comm_layout> layouts_;
  ReadMemory memory_;
  std::map<std::uint64_t, Comm> comms_;
  std::vector<Comm> retired_;  // destroyed in this drain
  std::vector<Pending> pending_;
  std::vector<TimedEvent> events_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> gone_;  // pointer, hash
  std::int64_t last_mono_ns_ = 0;
  std::uint64_t over_bound_ = 0;
};

// FNV-1a over the bytes of an ncclUniqueId: equal on all ranks that were given the same id.
std::uint64_t unique_id_hash(std::span<const std::uint8_t> unique_id);

}  // namespace rung
