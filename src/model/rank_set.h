// RankSet: a set of ranks, one bit each; prints as "0-36,38-99".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/ids.h"

namespace rung {

class RankSet {
 public:
  RankSet() = default;
  RankSet(std::initializer_list<std::int32_t> ranks) {
    for (const std::int32_t rank : ranks) insert(RankId{rank});
  }
  // [0, count)
  static RankSet first(std::size_t count);

  void insert(RankId rank);  // negative ranks and those above limits::kRanksPerJob are ignored
  void erase(RankId rank);
  bool contains(RankId rank) const;
  bool empty() const;
  std::size_t count() const;
  std::vector<RankId> ranks() const;  // ascending

  RankSet& operator|=(const RankSet& other);
  RankSet& operator&=(const RankSet& other);
  RankSet& operator-=(const RankSet& other);
  friend RankSet operator|(RankSet a, const RankSet& b) { return a |= b; }
  friend RankSet operator&(RankSet a, const RankSet& b) { return a &= b; }
  friend RankSet operator-(RankSet a, const RankSet& b) { return a -= b; }
  friend bool operator==(const RankSet& a, const RankSet& b);

  std::string text() const;  // "0-2,5"; "" when empty

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace rung
