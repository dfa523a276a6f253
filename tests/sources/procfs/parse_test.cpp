#include "sources/procfs/parse.h"

#include <gtest/gtest.h>

#include <string>

namespace rung {
namespace {

std::string stat_line(const std::string& comm) {
  return "4321 (" + comm +
         ") S 77 4321 70 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 9 0 987654 1000000 "
         "2048 18446744073709551615 0 0 0\n";
}

TEST(ParseStat, TakesTheFields) {
  const auto stat = parse_stat(stat_line("python3"));
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->pid, 4321);
  EXPECT_EQ(stat->comm, "python3");
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->ppid, 77);
  EXPECT_EQ(stat->session, 70);
  EXPECT_EQ(stat->cpu_ticks, 200u);
  EXPECT_EQ(stat->threads, 9);
  EXPECT_EQ(stat->start_ticks, 987654u);
  EXPECT_EQ(stat->resident_pages, 2048u);
}

TEST(ParseStat, CommMayPretendToBeFields) {
  const auto stat = parse_stat(stat_line("x) R 1 1 1 (y"));
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->comm, "x) R 1 1 1 (y");
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->ppid, 77);
}

TEST(ParseStat, RefusesWhatIsCutOrNoNumber) {
  EXPECT_FALSE(parse_stat(""));
  EXPECT_FALSE(parse_stat("1 (a"));
  EXPECT_FALSE(parse_stat(")("));
  EXPECT_FALSE(parse_stat(stat_line("a").substr(0, 40)));
  std::string bad = stat_line("a");
  bad.replace(bad.find("987654"), 6, "98765x");
  EXPECT_FALSE(parse_stat(bad));
}

TEST(ParseStatus, TakesTheFields) {
  const auto status = parse_status(
      "Name:\tpython3\nUid:\t1000\t1001\t1000\t1000\nNSpid:\t4321\t7\nTracerPid:\t55\n"
      "CapEff:\t000000c000080004\nSeccomp:\t2\n");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->uid, 1001u);
  EXPECT_EQ(status->ns_pids, (std::vector<std::int32_t>{4321, 7}));
  EXPECT_EQ(status->tracer_pid, 55);
  EXPECT_EQ(status->effective_caps, 0xc000080004u);
  EXPECT_EQ(status->seccomp, 2);
}

TEST(ParseStatus, SeccompIsUnknownNotOff) {
  const auto status = parse_status("Uid:\t0\t0\t0\t0\n");
  ASSERT_TRUE(status);
  EXPECT_FALSE(status->seccomp);
  EXPECT_FALSE(parse_status("Name:\tx\n"));
}

TEST(ParseIo, NeedsAllFour) {
  const std::string text =
      "rchar: 10\nwchar: 20\nsyscr: 1\nsyscw: 1\nread_bytes: 30\nwrite_bytes: 40\n"
      "cancelled_write_bytes: 0\n";
  const auto io = parse_io(text);
  ASSERT_TRUE(io);
  EXPECT_EQ(io->read_chars, 10u);
  EXPECT_EQ(io->written_chars, 20u);
  EXPECT_EQ(io->read_bytes, 30u);
  EXPECT_EQ(io->written_bytes, 40u);
  EXPECT_FALSE(parse_io(text.substr(0, 30)));
}

TEST(ParseEnviron, OnlyWantedKeysAndTheFirstOfThem) {
  using namespace std::string_literals;
  const auto env = parse_environ("RANK=3\0HOME=/root\0RANK=9\0XRANK=1\0broken\0WORLD_SIZE=\0"s,
                                 {"RANK", "WORLD_SIZE"});
  EXPECT_EQ(env, (std::map<std::string, std::string>{{"RANK", "3"}, {"WORLD_SIZE", ""}}));
}

TEST(ParseEnviron, LongValuesAreCut) {
  const auto env = parse_environ("RANK=" + std::string(100000, '1'), {"RANK"});
  EXPECT_EQ(env.at("RANK").size(), 4096u);
}

TEST(ParseMaps, ReadsLinesAndCountsBadOnes) {
  std::uint64_t bad = 0;
  const std::string text =
      "7f0000000000-7f0000001000 r-xp 00002000 fd:10 1234                       /usr/lib/a b.so\n"
      "7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \n"
      "garbage\n"
      "7f0000004000-7f0000003000 rw-p 00000000 00:00 0 \n"
      "7f0000005000-7f0000006000 r--p 00000000 00:1f 9 /tmp/libcuda.so.1 (deleted)\n";
  const auto maps = parse_maps(text, &bad);
  EXPECT_EQ(bad, 2u);
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps[0].path, "/usr/lib/a b.so");
  EXPECT_TRUE(maps[0].executable);
  EXPECT_EQ(maps[0].offset, 0x2000u);
  EXPECT_EQ(maps[0].dev, (std::uint64_t{0xfd} << 32 | 0x10));
  EXPECT_EQ(maps[0].inode, 1234u);
  EXPECT_EQ(maps[1].path, "");
  EXPECT_TRUE(maps[2].deleted);
  EXPECT_EQ(maps[2].path, "/tmp/libcuda.so.1");
}

TEST(LibraryKindOf, KnowsTheFiveByBaseName) {
  EXPECT_EQ(library_kind("/usr/lib/libcuda.so.580.95.05"), LibraryKind::kCuda);
  EXPECT_EQ(library_kind("/x/libcudart.so.13"), LibraryKind::kCudart);
  EXPECT_EQ(library_kind("/x/libcudart-d0da41ae.so.11.0"), LibraryKind::kCudart);
  EXPECT_EQ(library_kind("libnccl.so.2"), LibraryKind::kNccl);
  EXPECT_EQ(library_kind("/x/libcupti.so.13"), LibraryKind::kCupti);
  EXPECT_EQ(library_kind("/x/libtorch_cuda.so"), LibraryKind::kTorchCuda);
  EXPECT_FALSE(library_kind("/x/libcudart.so.13/other.so"));
  EXPECT_FALSE(library_kind("/x/libcudadebugger.so.1"));
  EXPECT_FALSE(library_kind("/x/libnccl-net.so"));
  EXPECT_FALSE(library_kind("/x/libtorch_cuda_linalg.so"));
  EXPECT_FALSE(library_kind(""));
}

TEST(VersionInName, OnlyARealVersion) {
  EXPECT_EQ(version_in_name("/x/libcuda.so.580.95.05"), "580.95.05");
  EXPECT_EQ(version_in_name("/x/libcuda.so.1"), "");
  EXPECT_EQ(version_in_name("/x/libcuda.so"), "");
  EXPECT_EQ(version_in_name("/x/libnccl.so.2.x"), "");
}

TEST(Compilers, KnowsThemByComm) {
  for (const char* comm :
       {"ptxas", "cc1plus", "nvcc", "cicc", "ld", "ninja", "clang", "clang-16"}) {
    EXPECT_TRUE(is_compiler(comm)) << comm;
  }
  EXPECT_FALSE(is_compiler("python3"));
  EXPECT_FALSE(is_compiler("ldconfig"));
}

TEST(ProcessStateOf, EveryLetter) {
  EXPECT_EQ(process_state('R'), ProcessState::kRunning);
  EXPECT_EQ(process_state('S'), ProcessState::kSleeping);
  EXPECT_EQ(process_state('I'), ProcessState::kSleeping);
  EXPECT_EQ(process_state('D'), ProcessState::kDiskSleep);
  EXPECT_EQ(process_state('T'), ProcessState::kStopped);
  EXPECT_EQ(process_state('t'), ProcessState::kTraced);
  EXPECT_EQ(process_state('Z'), ProcessState::kZombie);
}

}  // namespace
}  // namespace rung
