#include "sources/nvml/process_list.h"

#include <gtest/gtest.h>

#include <cstring>

#include "abi/nvml.h"

namespace rung::nvml {
namespace {

std::vector<std::byte> list(std::size_t stride, const std::vector<unsigned>& pids,
                            std::uint64_t used) {
  std::vector<std::byte> bytes(pids.size() * kProcessStrideWide);
  for (std::size_t i = 0; i < pids.size(); ++i) {
    std::memcpy(bytes.data() + i * stride, &pids[i], sizeof pids[i]);
    if (stride >= 16) std::memcpy(bytes.data() + i * stride + 8, &used, sizeof used);
  }
  return bytes;
}

TEST(ProcessList, BothDistances) {
  const std::vector<unsigned> pids = {100, 200, 300, 4194304};
  const std::vector<std::int32_t> expected = {100, 200, 300, 4194304};
  EXPECT_EQ(pids_of_list(list(24, pids, 5), 4, 1000), expected);
  EXPECT_EQ(pids_of_list(list(32, pids, 5), 4, 1000), expected);
  EXPECT_EQ(pids_of_list(list(24, pids, ~0ULL), 4, 1000), expected);
  EXPECT_EQ(pids_of_old_list(list(16, pids, 5), 4), expected);
}

TEST(ProcessList, OneEntryReadsTheSameEitherWay) {
  EXPECT_EQ(pids_of_list(list(24, {7}, 5), 1, 0), std::vector<std::int32_t>{7});
  EXPECT_EQ(pids_of_list(list(32, {7}, 5), 1, 0), std::vector<std::int32_t>{7});
}

TEST(ProcessList, ImpossibleEntriesAreLeftOut) {
  EXPECT_TRUE(pids_of_list(list(24, {0, 0}, 0), 2, 0).empty());
  EXPECT_TRUE(pids_of_list(list(24, {0xFFFFFFFF}, 0), 1, 0).empty());
  EXPECT_TRUE(pids_of_list({}, 5, 0).empty());  // a count beyond the bytes
  EXPECT_EQ(pids_of_list(list(24, {9}, 0), 1000, 0).size(), 1u);
}

}  // namespace
}  // namespace rung::nvml
