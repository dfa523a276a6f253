// SharedComm: what the ranks of one communicator share in the fabric. Lock-free: every word has one
// writer (its rank), except the bells, which are only counted up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace rung::sim {

class SharedComm {
 public:
  // Splits of one communicator during its life.
  static constexpr std::uint32_t kMaxSplits = 32;

  // The area of the communicator with this hash; nothing when the fabric is full.
  static std::optional<SharedComm> attach(std::uint64_t hash, std::uint32_t ranks);

  // Says that `rank` is there, and waits until all ranks are.
  void join(std::uint32_t rank);

  // Joins collective number `sequence` (from 0). `signature` tells operation, type and size.
  void arrive(std::uint32_t rank, std::uint64_t sequence, std::uint64_t signature, double value);
  // Waits until all ranks have arrived with one signature; for ever when they differ, as NCCL's
  // kernels do. False when `aborted` became true.
  bool wait_all(std::uint64_t sequence, const std::function<bool()>& aborted);
  // The value of a rank in a collective that has completed.
  double value(std::uint64_t sequence, std::uint32_t rank) const;
  // From `sequence` on collectives are joined but never complete.
  void wedge(std::uint64_t sequence);

  // Announces one send or receive; gives its number on that pair and direction, from 1.
  std::uint32_t post(bool send, std::uint32_t self, std::uint32_t peer);
  // Waits until the peer has announced its side of it. False when `aborted` became true.
  bool wait_peer(bool send, std::uint32_t self, std::uint32_t peer, std::uint32_t number,
                 const std::function<bool()>& aborted);
  // Wakes every waiter of this communicator, so that it looks at its abort flag.
  void wake_all();

  // Exchanges colour and key with all ranks (blocks), and gives those of every rank.
  std::vector<std::pair<std::int32_t, std::int32_t>> exchange(std::uint32_t rank,
                                                              std::uint32_t split_index,
                                                              std::int32_t color, std::int32_t key);

 private:
  // A rank can be at most one collective ahead of the slowest, so two slots would do.
  static constexpr std::uint64_t kSlots = 4;

  SharedComm(std::byte* base, std::uint32_t ranks);
  static std::size_t bytes(std::uint32_t ranks);
  bool complete(std::uint64_t sequence) const;
  std::size_t slot(std::uint64_t sequence, std::uint32_t rank) const {
    return static_cast<std::size_t>(sequence % kSlots) * ranks_ + rank;
  }
  void ring(std::atomic<std::uint32_t>& bell);

  std::uint32_t ranks_;
  std::atomic<std::uint64_t>* wedged_from_;  // sequence + 1; 0: not wedged
  std::atomic<std::uint32_t>* bell_;
  std::atomic<std::uint32_t>* joined_;     // [ranks]
  std::atomic<std::uint32_t>* rank_bell_;  // [ranks], for point to point
  std::atomic<std::uint64_t>* arrived_;    // [kSlots][ranks], sequence + 1
  std::atomic<std::uint64_t>* signature_;  // [kSlots][ranks]
  std::atomic<double>* value_;             // [kSlots][ranks]
  std::atomic<std::uint32_t>* sent_;       // [source][destination]
  std::atomic<std::uint32_t>* received_;   // [source][destination]
  std::atomic<std::uint32_t>* present_;    // [kMaxSplits][ranks]
  std::atomic<std::int32_t>* color_;       // [kMaxSplits][ranks]
  std::atomic<std::int32_t>* key_;         // [kMaxSplits][ranks]
};

}  // namespace rung::sim
