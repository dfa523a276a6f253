#include "sources/host_probes/library_scan.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace rung {
namespace {

TEST(LibraryScan, FindsTheProbedLibrariesOnceEach) {
  const auto found = probed_libraries(
      "7f0000000000-7f0000001000 r--p 00000000 fe:00 11   /usr/lib/libcuda.so.580.159.04\n"
      "7f0000001000-7f0000002000 r-xp 00001000 fe:00 11   /usr/lib/libcuda.so.580.159.04\n"
      "7f0000002000-7f0000003000 rw-p 00002000 fe:00 11   /usr/lib/libcuda.so.580.159.04\n"
      "7f0000100000-7f0000101000 r-xp 00000000 fe:00 12   /x y/libnccl.so.2 (deleted)\n"
      "7f0000200000-7f0000201000 r-xp 00000000 fe:00 13   /t/libtorch_cuda.so\n"
      "7f0000300000-7f0000301000 r-xp 00000000 fe:00 14   /t/libnccl-net.so\n"
      "7f0000400000-7f0000401000 rw-p 00000000 00:00 0    [heap]\n");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].kind, LibraryKind::kCuda);
  EXPECT_EQ(found[0].map_file, "7f0000001000-7f0000002000") << "the executable mapping";
  EXPECT_EQ(found[0].inode, 11u);
  EXPECT_EQ(found[0].device, "fe:00");
  EXPECT_EQ(found[1].kind, LibraryKind::kNccl);
  EXPECT_EQ(found[1].path, "/x y/libnccl.so.2");
  EXPECT_EQ(found[2].kind, LibraryKind::kTorchCuda);
}

TEST(LibraryScan, LowAddressesLoseTheirZerosAsInMapFiles) {
  const auto found = probed_libraries("00400000-00500000 r-xp 00000000 fe:00 11 /a/libcuda.so.1\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].map_file, "400000-500000");
}

TEST(LibraryScan, NonsenseIsSkippedAndTheListIsBounded) {
  EXPECT_TRUE(probed_libraries("").empty());
  EXPECT_TRUE(probed_libraries("\n\n   \nlibcuda.so\n").empty());
  EXPECT_TRUE(probed_libraries("zz-yy r-xp 0 fe:00 11 /a/libcuda.so.1").empty());
  EXPECT_TRUE(probed_libraries("1-2 r-xp 0 fe:00 0 /a/libcuda.so.1").empty());
  std::string many;
  for (int i = 1; i < 100; ++i) many += fmt::format("1-2 r-xp 0 fe:00 {} /a/libcuda.so.1\n", i);
  EXPECT_EQ(probed_libraries(many).size(), 8u);
}

}  // namespace
}  // namespace rung
