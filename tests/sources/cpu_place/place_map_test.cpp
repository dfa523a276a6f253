#include "sources/cpu_place/place_map.h"

#include <gtest/gtest.h>

namespace rung {
namespace {

using Place = PlaceMap::Place;

const PlaceMap kMap(
    "1000-2000 r-xp 00000000 08:01 1 /usr/bin/python3.11\n"
    "2000-3000 rw-p 00000000 08:01 1 /usr/bin/python3.11\n"
    "5000-6000 r-xp 00000000 08:01 2 /usr/lib/libcuda.so.580.95.05\n"
    "6000-7000 r-xp 00000000 08:01 3 /site/libnccl.so.2\n"
    "8000-9000 r-xp 00000000 08:01 4 /lib/x86_64-linux-gnu/libc.so.6\n"
    "9000-a000 r-xp 00000000 08:01 5 /site/libcudart-d0da41ae.so.13 (deleted)\n"
    "b000-c000 r-xp 00000000 00:00 0 \n"
    "d000-e000 r-xp 00000000 00:00 0 [vdso]\n"
    "f000-10000 r-xp 00000000 08:01 6 /site/libtorch_cuda.so\n");

TEST(PlaceMapOf, KnowsWhatLiesWhere) {
  EXPECT_EQ(kMap.at(0x0), Place::kNowhere);
  EXPECT_EQ(kMap.at(0x1000), Place::kOther);
  EXPECT_EQ(kMap.at(0x1fff), Place::kOther);
  EXPECT_EQ(kMap.at(0x2000), Place::kNowhere);  // data
  EXPECT_EQ(kMap.at(0x5fff), Place::kCuda);
  EXPECT_EQ(kMap.at(0x6000), Place::kCuda);
  EXPECT_EQ(kMap.at(0x7000), Place::kNowhere);
  EXPECT_EQ(kMap.at(0x8000), Place::kLibc);
  EXPECT_EQ(kMap.at(0x9000), Place::kCuda);
  EXPECT_EQ(kMap.at(0xb000), Place::kOther);  // compiled at run time
  EXPECT_EQ(kMap.at(0xd000), Place::kCuda);
  EXPECT_EQ(kMap.at(0xf000), Place::kOther);  // holds torch's own code
  EXPECT_EQ(kMap.at(~0ULL), Place::kNowhere);
  EXPECT_EQ(PlaceMap("rubbish\n").at(0x1000), Place::kNowhere);
}

TEST(PlaceMapOf, LibcBelongsToItsCaller) {
  EXPECT_TRUE(kMap.in_cuda(0x8010, {0x5010}));
  EXPECT_TRUE(kMap.in_cuda(0x8010, {42, 0x2010, 0x8020, 0x6010, 0x1010}));
  EXPECT_FALSE(kMap.in_cuda(0x8010, {0x1010, 0x5010}));
  EXPECT_FALSE(kMap.in_cuda(0x8010, {}));
  EXPECT_FALSE(kMap.in_cuda(0x8010, {42}));
}

TEST(PlaceMapOf, OtherCodeIsNotCudaWhoeverCalledIt) {
  EXPECT_FALSE(kMap.in_cuda(0x1010, {0x5010}));
  EXPECT_TRUE(kMap.in_cuda(0x5010, {0x1010}));
  EXPECT_FALSE(kMap.in_cuda(0, {0x5010}));
}

}  // namespace
}  // namespace rung
