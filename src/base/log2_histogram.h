// Log2Histogram: counts of non-negative durations by power of two, with a quantile bound.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

namespace rung {

class Log2Histogram {
 public:
  // Bucket 0 counts values below 1; bucket i counts [2^(i-1), 2^i). The last one also what is
  // above.
  static constexpr int kBuckets = 48;

  void add(std::int64_t value) {
    const std::uint64_t positive = value < 0 ? 0 : static_cast<std::uint64_t>(value);
    const int bucket = static_cast<int>(std::bit_width(positive));
    ++counts_[static_cast<std::size_t>(bucket < kBuckets ? bucket : kBuckets - 1)];
    ++total_;
  }
  void merge(const Log2Histogram& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
  }
  std::uint64_t total() const { return total_; }
  const std::array<std::uint64_t, kBuckets>& counts() const { return counts_; }

  // The smallest power of two that at least `share` (0..1) of the values lie below; nothing when
  // empty.
  std::optional<std::int64_t> quantile_upper_bound(double share) const {
    if (total_ == 0) return std::nullopt;
    const double wanted = share * static_cast<double>(total_);
    std::uint64_t seen = 0;
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      seen += counts_[static_cast<std::size_t>(bucket)];
      if (static_cast<double>(seen) >= wanted) return std::int64_t{1} << bucket;
    }
    return std::int64_t{1} << (kBuckets - 1);
  }

 private:
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace rung
