#include "store/collective_blob.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <limits>
#include <random>

namespace rung::store {
namespace {

std::string deflated(const std::string& raw) {
  uLongf size = compressBound(raw.size());
  std::string out(size, '\0');
  compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(raw.data()),
           raw.size());
  out.resize(size);
  return out;
}

TEST(CollectiveBlob, AnyTimesAndIdsComeBack) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
  const std::vector<PackedEntry> entries = {{kLeast, 0}, {kMost, kLargest}, {0, 1},
                                            {-1, 127},   {1, 128},          {kLeast, kLargest}};
  const auto back = unpack_collectives(pack_collectives(entries), entries.size(), kLeast);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, entries);
}

TEST(CollectiveBlob, AnEmptyBatchIsABatch) {
  const auto back = unpack_collectives(pack_collectives({}), 0, 0);
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->empty());
}

TEST(CollectiveBlob, SteadyTrafficTakesLessThanFiveBytesAnEntry) {
  std::mt19937 random(1);
  std::vector<PackedEntry> entries;
  std::int64_t now = 1'796'000'000'000'000'000;
  for (int i = 0; i < 1000; ++i) {
    now += 5'000'000 + static_cast<std::int64_t>(random() % 1'000'000);
    entries.push_back({now, 1 + random() % 20});
  }
  EXPECT_LT(pack_collectives(entries).size(), 5 * entries.size());
}

TEST(CollectiveBlob, MalformedBlobsAreRefused) {
  const std::vector<PackedEntry> two = {{5, 1}, {6, 1}};
  const std::string good = pack_collectives(two);
  EXPECT_TRUE(unpack_collectives(good, 2, 5));
  EXPECT_FALSE(unpack_collectives(good, 1, 5));  // longer than it says
  EXPECT_FALSE(unpack_collectives(good, 3, 5));  // shorter
  EXPECT_FALSE(unpack_collectives(good.substr(0, good.size() - 1), 2, 5));
  EXPECT_FALSE(unpack_collectives(good + "x", 2, 5));
  EXPECT_FALSE(unpack_collectives("", 0, 0));
  EXPECT_FALSE(unpack_collectives("text", 1, 0));
  const std::string endless(11, '\xff');
  EXPECT_FALSE(unpack_collectives(deflated(endless), 1, 0));
  EXPECT_FALSE(
      unpack_collectives(deflated(std::string("\x02\x01", 2)), 1, 0));         // first delta not 0
  EXPECT_FALSE(unpack_collectives(deflated(std::string("\0\x80", 2)), 1, 0));  // cut in an id
  const std::string beyond_64_bits = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02";
  EXPECT_FALSE(unpack_collectives(deflated(std::string(1, '\0') + beyond_64_bits), 1, 0));
}

TEST(CollectiveBlob, ABombInflatesNoFurtherThanItsCount) {
  const std::string bomb = deflated(std::string(50 << 20, '\0'));
  EXPECT_LT(bomb.size(), 100U << 10);
  EXPECT_FALSE(unpack_collectives(bomb, 1, 0));
}

}  // namespace
}  // namespace rung::store
