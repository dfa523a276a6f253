#include "fakes/nccl/shared_comm.h"

#include "fabric/fabric.h"

namespace rung::sim {
namespace {

// A waiter looks again after this time even if nobody rang: the ringer may have been killed
// between its announcement and the bell.
constexpr int kLookAgainMs = 1000;

// Hands out consecutive arrays of a memory block.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <class T>
  std::atomic<T>* take(std::size_t count) {
    used_ =
        (used_ + alignof(std::atomic<T>) - 1) / alignof(std::atomic<T>) * alignof(std::atomic<T>);
    auto* first = reinterpret_cast<std::atomic<T>*>(base_ + used_);
    used_ += count * sizeof(std::atomic<T>);
    return first;
  }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace

SharedComm::SharedComm(std::byte* base, std::uint32_t ranks) : ranks_(ranks) {
  Carver carver(base);
  const std::size_t n = ranks;
  wedged_from_ = carver.take<std::uint64_t>(1);
  bell_ = carver.take<std::uint32_t>(1);
  joined_ = carver.take<std::uint32_t>(n);
  rank_bell_ = carver.take<std::uint32_t>(n);
  arrived_ = carver.take<std::uint64_t>(kSlots * n);
  signature_ = carver.take<std::uint64_t>(kSlots * n);
  value_ = carver.take<double>(kSlots * n);
  sent_ = carver.take<std::uint32_t>(n * n);
  received_ = carver.take<std::uint32_t>(n * n);
  present_ = carver.take<std::uint32_t>(kMaxSplits * n);
  color_ = carver.take<std::int32_t>(kMaxSplits * n);
  key_ = carver.take<std::int32_t>(kMaxSplits * n);
}

std::size_t SharedComm::bytes(std::uint32_t ranks) {
  const std::size_t n = ranks;
  return 64 + n * 8 + kSlots * n * 24 + n * n * 8 + kMaxSplits * n * 12;
}

std::optional<SharedComm> SharedComm::attach(std::uint64_t hash, std::uint32_t ranks) {
  Fabric* fabric = Fabric::instance();
  std::byte* base = fabric == nullptr ? nullptr : fabric->comm_area(hash, bytes(ranks));
  if (base == nullptr) return std::nullopt;
  return SharedComm(base, ranks);
}

void SharedComm::ring(std::atomic<std::uint32_t>& bell) {
  bell.fetch_add(1);
  futex_wake_all(bell);
}

void SharedComm::join(std::uint32_t rank) {
  const auto all_joined = [this] {
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      if (joined_[r].load() == 0) return false;
    }
    return true;
  };
  joined_[rank].store(1);
  bell_->fetch_add(1);
  if (all_joined()) futex_wake_all(*bell_);
  for (std::uint32_t bell = bell_->load(); !all_joined(); bell = bell_->load()) {
    futex_wait(*bell_, bell, kLookAgainMs);
  }
}

bool SharedComm::complete(std::uint64_t sequence) const {
  const std::uint64_t wedged_from = wedged_from_->load();
  if (wedged_from != 0 && sequence + 1 >= wedged_from) return false;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if (arrived_[slot(sequence, r)].load() != sequence + 1) return false;
  }
  for (std::uint32_t r = 1; r < ranks_; ++r) {
    if (signature_[slot(sequence, r)].load() != signature_[slot(sequence, 0)].load()) return false;
  }
  return true;
}

void SharedComm::arrive(std::uint32_t rank, std::uint64_t sequence, std::uint64_t signature,
                        double value) {
  signature_[slot(sequence, rank)].store(signature);
  value_[slot(sequence, rank)].store(value);
  arrived_[slot(sequence, rank)].store(sequence + 1);
  bell_->fetch_add(1);
  if (complete(sequence)) futex_wake_all(*bell_);
}

bool SharedComm::wait_all(std::uint64_t sequence, const std::function<bool()>& aborted) {
  for (;;) {
    const std::uint32_t bell = bell_->load();
    if (complete(sequence)) return true;
    if (aborted()) return false;
    futex_wait(*bell_, bell, kLookAgainMs);
  }
}

double SharedComm::value(std::uint64_t sequence, std::uint32_t rank) const {
  return value_[slot(sequence, rank)].load();
}

void SharedComm::wedge(std::uint64_t sequence) { wedged_from_->store(sequence + 1); }

std::uint32_t SharedComm::post(bool send, std::uint32_t self, std::uint32_t peer) {
  std::atomic<std::uint32_t>& count =
      send ? sent_[self * ranks_ + peer] : received_[peer * ranks_ + self];
  const std::uint32_t number = count.fetch_add(1) + 1;
  ring(rank_bell_[peer]);
  return number;
}

bool SharedComm::wait_peer(bool send, std::uint32_t self, std::uint32_t peer, std::uint32_t number,
                           const std::function<bool()>& aborted) {
  const std::atomic<std::uint32_t>& other =
      send ? received_[self * ranks_ + peer] : sent_[peer * ranks_ + self];
  for (;;) {
    const std::uint32_t bell = rank_bell_[self].load();
    if (other.load() >= number) return true;
    if (aborted()) return false;
    futex_wait(rank_bell_[self], bell, kLookAgainMs);
  }
}

void SharedComm::wake_all() {
  ring(*bell_);
  for (std::uint32_t r = 0; r < ranks_; ++r) ring(rank_bell_[r]);
}

std::vector<std::pair<std::int32_t, std::int32_t>> SharedComm::exchange(std::uint32_t rank,
                                                                        std::uint32_t split_index,
                                                                        std::int32_t color,
                                                                        std::int32_t key) {
  const std::size_t row = std::size_t{split_index} * ranks_;
  color_[row + rank].store(color);
  key_[row + rank].store(key);
  present_[row + rank].store(1);
  ring(*bell_);
  std::vector<std::pair<std::int32_t, std::int32_t>> all;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    for (std::uint32_t bell = bell_->load(); present_[row + r].load() == 0; bell = bell_->load()) {
      futex_wait(*bell_, bell, kLookAgainMs);
    }
    all.emplace_back(color_[row + r].load(), key_[row + r].load());
  }
  return all;
}

}  // namespace rung::sim
