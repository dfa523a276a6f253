#include "model/rank_set.h"

#include <algorithm>
#include <bit>

#include "model/limits.h"

namespace rung {
namespace {

constexpr std::size_t kWordBits = 64;

bool in_range(RankId rank) {
  return rank.value >= 0 && static_cast<std::size_t>(rank.value) < limits::kRanksPerJob;
}
std::size_t word_of(RankId rank) { return static_cast<std::size_t>(rank.value) / kWordBits; }
std::uint64_t bit_of(RankId rank) {
  return std::uint64_t{1} << (static_cast<std::size_t>(rank.value) % kWordBits);
}

}  // namespace

RankSet RankSet::first(std::size_t count) {
  RankSet set;
  for (std::size_t rank = 0; rank < std::min(count, limits::kRanksPerJob); ++rank) {
    set.insert(RankId{static_cast<std::int32_t>(rank)});
  }
  return set;
}

void RankSet::insert(RankId rank) {
  if (!in_range(rank)) return;
  if (word_of(rank) >= words_.size()) words_.resize(word_of(rank) + 1);
  words_[word_of(rank)] |= bit_of(rank);
}

void RankSet::erase(RankId rank) {
  if (in_range(rank) && word_of(rank) < words_.size()) words_[word_of(rank)] &= ~bit_of(rank);
}

bool RankSet::contains(RankId rank) const {
  return in_range(rank) && word_of(rank) < words_.size() &&
         (words_[word_of(rank)] & bit_of(rank)) != 0;
}

bool RankSet::empty() const {
  return std::all_of(words_.begin(), words_.end(), [](std::uint64_t word) { return word == 0; });
}

std::size_t RankSet::count() const {
  std::size_t bits = 0;
  for (const std::uint64_t word : words_) bits += static_cast<std::size_t>(std::popcount(word));
  return bits;
}

std::vector<RankId> RankSet::ranks() const {
  std::vector<RankId> out;
  for (std::size_t word = 0; word < words_.size(); ++word) {
    for (std::uint64_t rest = words_[word]; rest != 0; rest &= rest - 1) {
      const std::size_t bit = static_cast<std::size_t>(std::countr_zero(rest));
      out.push_back(RankId{static_cast<std::int32_t>(word * kWordBits + bit)});
    }
  }
  return out;
}

RankSet& RankSet::operator|=(const RankSet& other) {
  if (other.words_.size() > words_.size()) words_.resize(other.words_.size());
  for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

RankSet& RankSet::operator&=(const RankSet& other) {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    words_[i] &= i < other.words_.size() ? other.words_[i] : 0;
  }
  return *this;
}

RankSet& RankSet::operator-=(const RankSet& other) {
  const std::size_t shared = std::min(words_.size(), other.words_.size());
  for (std::size_t i = 0; i < shared; ++i) words_[i] &= ~other.words_[i];
  return *this;
}

bool operator==(const RankSet& a, const RankSet& b) { return a.ranks() == b.ranks(); }

std::string RankSet::text() const {
  std::string out;
  const std::vector<RankId> all = ranks();
  for (std::size_t i = 0; i < all.size();) {
    std::size_t last = i;
    while (last + 1 < all.size() && all[last + 1].value == all[last].value + 1) ++last;
    if (!out.empty()) out += ',';
    out += std::to_string(all[i].value);
    if (last > i) {
      out += '-';
      out += std::to_string(all[last].value);
    }
    i = last + 1;
  }
  return out;
}

}  // namespace rung
