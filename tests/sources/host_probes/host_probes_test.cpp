#include "sources/host_probes/host_probes.h"

#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>

#include "workload.h"

namespace rung {
namespace {

constexpr const char* kAllReduce = "call ncclAllReduce {} 1 2 {} 7 0 c{} 9";

std::string all_reduce(int times, std::uint64_t count, int comm) {
  return fmt::format(fmt::runtime(kAllReduce), times, count, comm);
}

// All entries with an index, over batches of one communicator, in the order told.
std::vector<std::optional<std::uint64_t>> indices(const std::vector<CollectiveBatch>& batches) {
  std::vector<std::optional<std::uint64_t>> out;
  for (const CollectiveBatch& batch : batches) {
    for (std::size_t i = 0; i < batch.entries.size(); ++i) {
      out.push_back(batch.first_index ? std::optional(*batch.first_index + i) : std::nullopt);
    }
  }
  return out;
}

TEST_F(HostProbesTest, CanaryLivesInEachModeAndHasACost) {
  open();
  EXPECT_TRUE(probes_->canary().passed);
  EXPECT_EQ(probes_->canary().modes.size(), 8u);
  for (const auto& mode : probes_->canary().modes) EXPECT_TRUE(mode.passed) << mode.name;
  EXPECT_GT(probes_->canary().cost_ns, 0);
}

TEST_F(HostProbesTest, ACanaryThatDiesKeepsTheProbesAway) {
  config_.canary_executable = "/bin/false";
  Reason why = Reason::kNone;
  const auto opened = HostProbes::open(config_, &why);
  ASSERT_FALSE(opened);
  EXPECT_EQ(why, Reason::kCanaryFailed);
}

TEST_F(HostProbesTest, BadConfigurationIsRefused) {
  config_.accepted = {{"00", "9.9.9"}};
  const auto no_layout = HostProbes::open(config_);
  ASSERT_FALSE(no_layout);
  EXPECT_EQ(no_layout.error().code, ErrorCode::kUsage);
  config_.accepted.clear();
  config_.ring_bytes = 5000;
  ASSERT_FALSE(HostProbes::open(config_));
  config_.ring_bytes = 4096;
  config_.canary_executable.clear();
  ASSERT_FALSE(HostProbes::open(config_));
}

TEST_F(HostProbesTest, CountsAndBytesAreExact) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libcuda.so.1"));
  watch(workload);
  EXPECT_EQ(coverage(workload).stage, Stage::kAttached);
  workload.tell("call cuLaunchKernel 12345");
  workload.tell("call cuGraphLaunch 3");
  workload.tell("call cuMemcpyAsync 10 1 2 1000");
  workload.tell("call cuMemcpyPeerAsync 2 1 2 3 4 7 5");
  workload.tell("shape 0 112 64 10");
  workload.tell("call cuMemcpy2DAsync_v2 1 s0");
  workload.tell("shape 1 176 8 4 2");
  workload.tell("call cuMemcpy3DAsync_v2 1 s1");
  workload.tell("call cuMemsetD32Async 5 1 0 100");
  workload.tell("call cuMemsetD2D16Async 1 1 2 0 10 20");
  workload.tell("call cuMemAlloc_v2 4 1 4096");
  workload.tell("call cuMemFree_v2 4 1");
  workload.tell("call cuModuleLoadData 1");
  const auto seen = drain();
  const ProcessKey key = workload.key();
  EXPECT_EQ(counted(seen, key, RUNG_CALL_LAUNCH).entered, 12345u);
  EXPECT_EQ(counted(seen, key, RUNG_CALL_GRAPH_LAUNCH).entered, 3u);
  EXPECT_EQ(counted(seen, key, RUNG_CALL_COPY).entered, 14u);
  EXPECT_EQ(counted(seen, key, RUNG_CALL_COPY).bytes, 10u * 1000 + 2 * 7 + 640 + 64);
  EXPECT_EQ(counted(seen, key, RUNG_CALL_SET).entered, 6u);
  EXPECT_EQ(counted(seen, key, RUNG_CALL_SET).bytes, 5u * 400 + 400);
  EXPECT_EQ(counted(seen, key, RUNG_CALL_ALLOC).entered, 4u);
  EXPECT_EQ(counted(seen, key, RUNG_CALL_ALLOC).bytes, 4u * 4096);
  EXPECT_EQ(counted(seen, key, RUNG_CALL_FREE).entered, 4u);
  EXPECT_EQ(counted(seen, key, RUNG_CALL_MODULE).entered, 1u);
  EXPECT_EQ(coverage(workload).stage, Stage::kFlowing);
  EXPECT_FALSE(of<HostCallStats>(seen, key).back().launches_thinned);
}

TEST_F(HostProbesTest, AHotSingleSteppedFunctionIsLeftAloneAndNamed) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libcuda.so.1"));
  watch(workload);
  workload.tell("call cuMemcpyHtoD_v2 5 1 2 1000");
  EXPECT_EQ(counted(drain(), workload.key(), RUNG_CALL_COPY).entered, 0u);
  EXPECT_EQ(coverage(workload).reason, Reason::kSingleStepped);
  EXPECT_NE(coverage(workload).detail.find("cuMemcpyHtoD_v2"), std::string::npos);
}

TEST_F(HostProbesTest, AThreadInACallIsShownWithItsAge) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libcuda.so.1"));
  watch(workload);
  workload.tell("block");
  std::optional<InFlightCall> blocked;
  while (!blocked) {
    for (const auto& call : of<InFlightCall>(drain(), workload.key())) {
      // The state is read once the call has an age.
      if (call.function == "cuStreamSynchronize" && call.thread_state != '?') blocked = call;
    }
  }
  EXPECT_EQ(blocked->call, RUNG_CALL_SYNC);
  EXPECT_EQ(blocked->calls_so_far, 1u);
  EXPECT_NE(blocked->tid, workload.pid());
  EXPECT_LT(blocked->entered, unix_ns(unix_now_ns()));
  EXPECT_GT(blocked->entered, unix_ns(unix_now_ns()) - std::chrono::minutes(5));
  workload.tell("unblock");
  // The thread ends, and so does its entry.
  while (!of<InFlightCall>(drain(), workload.key()).empty()) {
  }
}

TEST_F(HostProbesTest, CollectivesAreNumberedFromTheCommunicatorsOwnCounters) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  workload.tell("init 0 4 2 77");
  workload.tell(all_reduce(3, 1024, 0));
  workload.tell("call ncclReduce 1 1 2 50 7 2 3 c0 9");
  workload.tell("call ncclBroadcast 1 1 2 60 7 1 c0 9");
  workload.tell("call ncclAllGather 1 1 2 70 9 c0 9");
  const auto seen = drain();
  const auto batches = of<CollectiveBatch>(seen, workload.key());
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].first_index, 0u);
  EXPECT_EQ(batches[0].comm.id.source, CommId::Source::kMemory);
  EXPECT_EQ(batches[0].comm.size, 4);
  EXPECT_EQ(batches[0].comm.rank, 2);
  EXPECT_FALSE(batches[0].captured);
  ASSERT_EQ(batches[0].entries.size(), 6u);
  EXPECT_EQ(batches[0].entries[0].what, (CollectiveSignature{RUNG_OP_ALL_REDUCE, 7, 0, -1, 1024}));
  EXPECT_EQ(batches[0].entries[3].what, (CollectiveSignature{RUNG_OP_REDUCE, 7, 2, 3, 50}));
  EXPECT_EQ(batches[0].entries[4].what, (CollectiveSignature{RUNG_OP_BROADCAST, 7, 0, 1, 60}));
  EXPECT_EQ(batches[0].entries[5].what, (CollectiveSignature{RUNG_OP_ALL_GATHER, 9, 0, -1, 70}));
  EXPECT_EQ(probes_->totals().unreadable, 0u);
}

TEST_F(HostProbesTest, InitIsToldOnceEnteredAndOnceDone) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  workload.tell("init 0 4 2 77");
  const auto events = of<CommEvent>(drain(), workload.key());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].what, CommEvent::What::kInitEntered);
  EXPECT_EQ(events[0].comm.id.source, CommId::Source::kUniqueId);
  EXPECT_EQ(events[0].comm.size, 4);
  EXPECT_EQ(events[0].comm.rank, 2);
  EXPECT_EQ(events[0].comm.pointer, 0u);
  EXPECT_EQ(events[1].what, CommEvent::What::kInitDone);
  EXPECT_EQ(events[1].comm.id, events[0].comm.id);
  EXPECT_NE(events[1].comm.pointer, 0u);
  workload.tell("call ncclCommDestroy 1 c0");
  const auto ended = of<CommEvent>(drain(), workload.key());
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].what, CommEvent::What::kDestroyed);
  EXPECT_EQ(ended[0].comm.pointer, events[1].comm.pointer);
}

TEST_F(HostProbesTest, GroupsNumberTheirMembersInOrder) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  workload.tell("init 0 4 2 77");
  workload.tell("init 1 2 0 78");
  workload.tell(all_reduce(2, 10, 0));
  workload.tell("call ncclGroupStart 1");
  workload.tell(all_reduce(2, 11, 0));
  workload.tell("call ncclGroupStart 1");  // nested
  workload.tell(all_reduce(1, 12, 1));
  workload.tell(all_reduce(1, 0, 0));  // empty: NCCL discards it
  workload.tell(all_reduce(1, 13, 0));
  workload.tell("call ncclGroupEnd 1");
  workload.tell(all_reduce(1, 14, 0));
  workload.tell("call ncclAlltoAll 1 1 2 15 7 c0 9");  // takes no number
  workload.tell("call ncclGroupEnd 1");
  workload.tell(all_reduce(1, 16, 0));
  workload.tell(all_reduce(1, 17, 1));
  std::vector<std::pair<std::uint64_t, std::optional<std::uint64_t>>> first, second;
  for (const auto& batch : of<CollectiveBatch>(drain(), workload.key())) {
    for (std::size_t i = 0; i < batch.entries.size(); ++i) {
      (batch.comm.size == 4 ? first : second)
          .emplace_back(batch.entries[i].what.count,
                        batch.first_index ? std::optional(*batch.first_index + i) : std::nullopt);
    }
  }
  using Row = std::pair<std::uint64_t, std::optional<std::uint64_t>>;
  const std::vector<Row> wanted_first = {{10, 0}, {10, 1}, {11, 2},  {11, 3},
                                         {13, 4}, {14, 5}, {15, {}}, {16, 6}};
  EXPECT_EQ(first, wanted_first);
  const std::vector<Row> wanted_second = {{12, 0}, {17, 1}};
  EXPECT_EQ(second, wanted_second);
}

TEST_F(HostProbesTest, LateProbesGoOnFromTheCountersTheyFind) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libnccl.so.2"));
  workload.tell("init 0 4 2 77");
  workload.tell(all_reduce(100, 10, 0));
  watch(workload);
  workload.tell(all_reduce(5, 10, 0));
  const auto batches = of<CollectiveBatch>(drain(), workload.key());
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].first_index, 100u);
  EXPECT_EQ(batches[0].entries.size(), 5u);
}

TEST_F(HostProbesTest, ProbesThatComeInsideAGroupGiveNoWrongNumber) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libnccl.so.2"));
  workload.tell("init 0 4 2 77");
  workload.tell(all_reduce(100, 10, 0));
  workload.tell("call ncclGroupStart 1");
  workload.tell(all_reduce(2, 10, 0));  // 100 and 101, unseen
  watch(workload);
  workload.tell(all_reduce(2, 11, 0));  // 102 and 103, the base still says 100
  workload.tell("call ncclGroupEnd 1");
  workload.tell(all_reduce(2, 12, 0));
  const auto batches = of<CollectiveBatch>(drain(), workload.key());
  for (const CollectiveBatch& batch : batches) {
    for (std::size_t i = 0; i < batch.entries.size(); ++i) {
      if (!batch.first_index) continue;
      EXPECT_EQ(*batch.first_index + i, batch.entries[i].what.count == 12 ? 104 + i : 0)
          << "a number was given to a member of the unseen group";
    }
  }
  EXPECT_EQ(indices(batches).back(), 105u);
}

TEST_F(HostProbesTest, OneMemberOfAnUnseenGroupGetsNoNumberEither) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libnccl.so.2"));
  workload.tell("init 0 4 2 77");
  workload.tell("call ncclGroupStart 1");
  workload.tell(all_reduce(2, 10, 0));
  watch(workload);
  workload.tell(all_reduce(1, 11, 0));  // number 2, the base says 0
  workload.tell("call ncclGroupEnd 1");
  workload.tell(all_reduce(2, 12, 0));
  EXPECT_EQ(indices(of<CollectiveBatch>(drain(), workload.key())),
            (std::vector<std::optional<std::uint64_t>>{std::nullopt, 3, 4}));
}

TEST_F(HostProbesTest, AFirstCollectiveThatNeverReturnsGetsItsNumberAfterASecond) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libnccl.so.2"));
  workload.tell("init 0 4 2 77");
  workload.tell(all_reduce(7, 10, 0));
  watch(workload);
  workload.tell(all_reduce(1, 10, 0));
  std::vector<CollectiveBatch> batches;
  while (batches.empty()) batches = of<CollectiveBatch>(drain(), workload.key());
  EXPECT_EQ(indices(batches), (std::vector<std::optional<std::uint64_t>>{7}));
}

TEST_F(HostProbesTest, CapturedCollectivesAreMarkedAndHaveNoNumber) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libcuda.so.1"));
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  workload.tell("init 0 4 2 77");
  workload.tell("call cuStreamBeginCapture_v2 1");
  workload.tell(all_reduce(2, 10, 0));
  workload.tell("call cuStreamEndCapture 1");
  const auto batches = of<CollectiveBatch>(drain(), workload.key());
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_TRUE(batches[0].captured);
  EXPECT_EQ(batches[0].first_index, std::nullopt);
  EXPECT_EQ(batches[0].entries.size(), 2u);
}

TEST_F(HostProbesTest, WithoutALayoutTheUniqueIdNamesAndWeCount) {
  open();
  Workload workload;
  workload.tell("load " + fixture("unknown/libnccl.so.2"));
  watch(workload);
  EXPECT_EQ(coverage(workload).reason, Reason::kUnknownBuild);
  workload.tell("init 0 4 2 77");
  workload.tell(all_reduce(3, 10, 0));
  const auto seen = drain();
  const auto batches = of<CollectiveBatch>(seen, workload.key());
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].comm.id.source, CommId::Source::kUniqueId);
  EXPECT_EQ(batches[0].comm.size, 4);
  EXPECT_EQ(batches[0].comm.rank, 2);
  EXPECT_EQ(batches[0].first_index, 0u);
  const auto events = of<CommEvent>(seen, workload.key());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].what, CommEvent::What::kInitDone);
  EXPECT_EQ(events[1].comm.id, batches[0].comm.id);
}

TEST_F(HostProbesTest, WithoutLayoutAndInitACommunicatorIsUnidentified) {
  open();
  Workload workload;
  workload.tell("load " + fixture("unknown/libnccl.so.2"));
  workload.tell("init 0 4 2 77");
  watch(workload);
  workload.tell(all_reduce(3, 10, 0));
  const auto batches = of<CollectiveBatch>(drain(), workload.key());
  ASSERT_FALSE(batches.empty());
  for (const CollectiveBatch& batch : batches) {
    EXPECT_EQ(batch.comm.id.source, CommId::Source::kUnidentified);
    EXPECT_EQ(batch.comm.size, std::nullopt);
    EXPECT_EQ(batch.first_index, std::nullopt);
  }
}

TEST_F(HostProbesTest, ASplitCommunicatorIsReadFromMemory) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  workload.tell("init 0 4 2 77");
  workload.tell("call ncclCommSplit 1 c0 3 1 p1 0");
  workload.tell(all_reduce(2, 10, 1));
  const auto seen = drain();
  const auto batches = of<CollectiveBatch>(seen, workload.key());
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].comm.size, 2);
  EXPECT_EQ(batches[0].comm.rank, 1);
  EXPECT_EQ(batches[0].first_index, 0u);
  const auto events = of<CommEvent>(seen, workload.key());
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const CommEvent& event) {
                            return event.what == CommEvent::What::kSplitEntered;
                          }),
            1);
}

TEST_F(HostProbesTest, PointToPointCallsAreCountedByPeer) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  workload.tell("init 0 4 2 77");
  workload.tell("call ncclSend 5 1 100 7 3 c0 9");
  workload.tell("call ncclRecv 4 1 100 7 1 c0 9");
  const auto stats = of<PointToPointStats>(drain(), workload.key());
  ASSERT_EQ(stats.size(), 1u);
  EXPECT_TRUE(stats[0].since_init);
  EXPECT_EQ(stats[0].comm.id.source, CommId::Source::kMemory);
  EXPECT_EQ(stats[0].comm.rank, 2);
  ASSERT_EQ(stats[0].peers.size(), 2u);
  EXPECT_EQ(stats[0].peers[0].peer, 1);
  EXPECT_EQ(stats[0].peers[0].receives, 4u);
  EXPECT_EQ(stats[0].peers[0].sends, 0u);
  EXPECT_EQ(stats[0].peers[1].peer, 3);
  EXPECT_EQ(stats[0].peers[1].sends, 5u);
  EXPECT_TRUE(of<PointToPointStats>(drain(), workload.key()).empty()) << "nothing has moved";
}

TEST_F(HostProbesTest, AnExecBeginsAnew) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  workload.tell("call ncclGroupStart 1");
  drain();
  workload.send("exec");
  EXPECT_EQ(workload.answer(), "ready");
  drain();
  bool seen_exec = false;
  for (const ProcessEvent& event : probes_->take_process_events()) {
    seen_exec = seen_exec || (event.what == ProcessEvent::What::kExec && event.watched);
  }
  EXPECT_TRUE(seen_exec);
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  workload.tell("init 0 4 2 77");
  workload.tell(all_reduce(3, 10, 0));  // in no group: the one before belongs to the old program
  EXPECT_EQ(indices(of<CollectiveBatch>(drain(), workload.key())),
            (std::vector<std::optional<std::uint64_t>>{0, 1, 2}));
}

TEST_F(HostProbesTest, AFileThatIsNoLibraryIsNamedAndDoesNoHarm) {
  const std::string folder = ::testing::TempDir() + fmt::format("/text{}", getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/libcuda.so.1") << std::string(8192, 'x');
  open();
  Workload workload;
  workload.tell("map " + folder + "/libcuda.so.1");
  watch(workload);
  EXPECT_EQ(coverage(workload).stage, Stage::kRefused);
  EXPECT_EQ(coverage(workload).reason, Reason::kNoSymbols);
  std::filesystem::remove_all(folder);
}

TEST_F(HostProbesTest, AFullRingLosesACountedNumber) {
  config_.ring_bytes = static_cast<std::size_t>(getpagesize());
  open();
  Workload workload;
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  workload.tell("init 0 4 2 77");
  drain();
  workload.tell(all_reduce(1000, 10, 0));
  const auto seen = drain();
  const auto entries = indices(of<CollectiveBatch>(seen, workload.key()));
  ASSERT_FALSE(entries.empty());
  EXPECT_LT(entries.size(), 1000u);
  const auto health = of<HealthEvent>(seen, workload.key());
  ASSERT_EQ(health.size(), 1u);
  EXPECT_EQ(health[0].kind, HealthEvent::Kind::kRecordsLost);
  EXPECT_EQ(static_cast<std::size_t>(health[0].value), 1000 - entries.size());
  EXPECT_EQ(coverage(workload).lost, 1000 - entries.size());
  EXPECT_EQ(probes_->totals().ring_lost, 1000 - entries.size());
  EXPECT_EQ(counted(seen, workload.key(), RUNG_CALL_COLLECTIVE).entered, 1000u);
  EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), std::uint64_t{0},
                            [](std::uint64_t sum, const Observation& one) {
                              return sum + one.from.lost_before;
                            }),
            1000 - entries.size());
  // The communicator's own counters survive the loss.
  workload.tell(all_reduce(1, 10, 0));
  EXPECT_EQ(indices(of<CollectiveBatch>(drain(), workload.key())),
            (std::vector<std::optional<std::uint64_t>>{1000}));
}

TEST_F(HostProbesTest, OurOwnCountEndsWithTheFirstLoss) {
  config_.ring_bytes = static_cast<std::size_t>(getpagesize());
  open();
  Workload workload;
  workload.tell("load " + fixture("unknown/libnccl.so.2"));
  watch(workload);
  workload.tell("init 0 4 2 77");
  workload.tell(all_reduce(1, 10, 0));
  drain();
  workload.tell(all_reduce(1000, 10, 0));
  drain();
  workload.tell(all_reduce(1, 10, 0));
  EXPECT_EQ(indices(of<CollectiveBatch>(drain(), workload.key())),
            (std::vector<std::optional<std::uint64_t>>{std::nullopt}));
}

TEST_F(HostProbesTest, AProcessWithoutASlotIsDropped) {
  open();
  Workload watched, other;
  watched.tell("load " + fixture("libcuda.so.1"));
  other.tell("load " + fixture("libcuda.so.1"));
  watch(watched);
  other.tell("call cuLaunchKernel 10");
  drain();
  EXPECT_EQ(probes_->totals().hits_unwatched, 10u);
}

TEST_F(HostProbesTest, AHitThroughAnotherFileIsDropped) {
  const std::string copy = ::testing::TempDir() + fmt::format("/copy{}", getpid());
  std::filesystem::create_directory(copy);
  std::filesystem::copy_file(fixture("libcuda.so.1"), copy + "/libcuda.so.1");
  open();
  Workload one, both;
  one.tell("load " + copy + "/libcuda.so.1");
  both.tell("load " + fixture("libcuda.so.1"));
  watch(one);
  watch(both);
  EXPECT_EQ(probes_->totals().files, 2u);
  // Calls that come through a file mapped after the last look are not its own yet.
  both.send("exec");
  EXPECT_EQ(both.answer(), "ready");
  both.tell("load " + copy + "/libcuda.so.1");
  both.tell("call cuLaunchKernel 10");
  EXPECT_EQ(counted(drain(), both.key(), RUNG_CALL_LAUNCH).entered, 0u);
  EXPECT_EQ(probes_->totals().hits_other_link, 10u);
  watch(both);
  both.tell("call cuLaunchKernel 10");
  EXPECT_EQ(counted(drain(), both.key(), RUNG_CALL_LAUNCH).entered, 10u);
  std::filesystem::remove_all(copy);
}

TEST_F(HostProbesTest, ALibraryLoadedLaterIsFoundByTheNextLook) {
  open();
  Workload workload;
  watch(workload);
  EXPECT_EQ(coverage(workload).stage, Stage::kRequested);
  EXPECT_EQ(coverage(workload).reason, Reason::kNoLibrary);
  workload.tell("load " + fixture("libcuda.so.1"));
  watch(workload);
  workload.tell("call cuLaunchKernel 10");
  EXPECT_EQ(counted(drain(), workload.key(), RUNG_CALL_LAUNCH).entered, 10u);
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  workload.tell("init 0 4 2 77");
  workload.tell(all_reduce(1, 10, 0));
  EXPECT_EQ(of<CollectiveBatch>(drain(), workload.key()).size(), 1u);
}

TEST_F(HostProbesTest, ALibraryThatWasDeletedIsProbedAllTheSame) {
  const std::string copy = ::testing::TempDir() + fmt::format("/gone{}", getpid());
  std::filesystem::create_directory(copy);
  std::filesystem::copy_file(fixture("libcuda.so.1"), copy + "/libcuda.so.1");
  open();
  Workload workload;
  workload.tell("load " + copy + "/libcuda.so.1");
  std::filesystem::remove_all(copy);
  watch(workload);
  workload.tell("call cuLaunchKernel 10");
  EXPECT_EQ(counted(drain(), workload.key(), RUNG_CALL_LAUNCH).entered, 10u);
}

TEST_F(HostProbesTest, ExitCodesAndSignalsAreSeen) {
  open();
  Workload leaves, dies;
  watch(leaves);
  watch(dies);
  leaves.end("exit 42");
  dies.end("die 11");
  drain();
  std::vector<ProcessEvent> exits;
  for (const ProcessEvent& event : probes_->take_process_events()) {
    if (event.what == ProcessEvent::What::kExit) exits.push_back(event);
  }
  ASSERT_EQ(exits.size(), 2u);
  EXPECT_EQ(exits[0].pid, leaves.pid());
  EXPECT_EQ(exits[0].exit_code, 42);
  EXPECT_EQ(exits[0].signal, std::nullopt);
  EXPECT_TRUE(exits[0].watched);
  EXPECT_EQ(exits[1].pid, dies.pid());
  EXPECT_EQ(exits[1].exit_code, std::nullopt);
  EXPECT_EQ(exits[1].signal, 11);
  EXPECT_TRUE(probes_->take_process_events().empty());
}

TEST_F(HostProbesTest, ProcessesThatComeAndGoBetweenDrainsAreCounted) {
  open();
  drain();
  const std::uint64_t before = probes_->totals().short_lived;
  const std::string pid = std::to_string([] {
    Workload brief;
    brief.end("exit 0");
    return brief.pid();
  }());
  drain();
  EXPECT_GE(probes_->totals().short_lived, before + 1);
  bool hinted = false;
  for (const ProcessEvent& event : probes_->take_process_events()) {
    hinted =
        hinted || (event.what == ProcessEvent::What::kExec && std::to_string(event.pid) == pid);
  }
  EXPECT_TRUE(hinted) << "an exec of a process that nobody watches is a hint";
}

// Runs the rest of the test in a pid namespace of its own, as an agent in a container has it.
int run_in_namespace(const std::function<int()>& body) {
  const pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) _exit(77);
    const pid_t inner = fork();
    if (inner == 0) {
      const bool ready = mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount("proc", "/proc", "proc", 0, nullptr) == 0;
      _exit(ready ? body() : 77);
    }
    int status = 0;
    waitpid(inner, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  int status = 0;
  waitpid(outer, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

TEST_F(HostProbesTest, AnAgentInAPidNamespaceSeesItsOwnNumbers) {
  const int result = run_in_namespace([this] {
    open();
    Workload workload;
    if (workload.pid() > 1000) return 2;  // not the outer numbers
    workload.tell("load " + fixture("libcuda.so.1"));
    watch(workload);
    workload.tell("call cuLaunchKernel 10");
    const auto seen = drain();
    const auto calls = of<InFlightCall>(seen, workload.key());
    if (counted(seen, workload.key(), RUNG_CALL_LAUNCH).entered != 10) return 3;
    if (calls.size() != 1 || calls[0].tid != workload.pid()) return 4;
    workload.end("exit 5");
    drain();
    for (const ProcessEvent& event : probes_->take_process_events()) {
      const bool exit = event.what == ProcessEvent::What::kExit;
      if (exit && event.pid == workload.pid() && event.exit_code == 5) return 0;
    }
    return 6;
  });
  if (result == 77) GTEST_SKIP() << "no right to make a pid namespace";
  EXPECT_EQ(result, 0);
}

TEST_F(HostProbesTest, AnotherProcessUnderTheSamePidIsRefused) {
  open();
  Workload workload;
  ProcessKey older = workload.key();
  older.start_ticks -= 1;
  const auto watched = probes_->watch(older, workload.pid());
  ASSERT_FALSE(watched);
  EXPECT_EQ(watched.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(probes_->totals().processes, 0u);
}

TEST_F(HostProbesTest, WatchingAgainAndAgainLeavesNothingBehind) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libcuda.so.1"));
  workload.tell("load " + fixture("libnccl.so.2"));
  workload.tell("init 0 4 2 77");
  watch(workload);
  const ProbeTotals first = probes_->totals();
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto open_files = descriptors();
  for (int i = 0; i < 600; ++i) {  // more often than there are slots
    probes_->unwatch(workload.key());
    watch(workload);
  }
  workload.tell("call cuLaunchKernel 7");
  workload.tell("call ncclSend 2 1 100 7 3 c0 9");
  const auto seen = drain();
  EXPECT_EQ(counted(seen, workload.key(), RUNG_CALL_LAUNCH).entered, 7u);
  EXPECT_EQ(probes_->totals().links, first.links);
  EXPECT_EQ(probes_->totals().processes, 1u);
  EXPECT_EQ(descriptors(), open_files);
  probes_->unwatch(workload.key());
  EXPECT_EQ(probes_->totals().processes, 0u);
  std::vector<Observation> out;
  while (probes_->totals().files > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    probes_->govern(unix_ns(unix_now_ns()), out);
  }
  EXPECT_EQ(probes_->totals().links, 0u);
  watch(workload);
  EXPECT_EQ(counted(drain(), workload.key(), RUNG_CALL_LAUNCH).entered, 0u) << "a slot used again";
}

TEST_F(HostProbesTest, ManyProcessesShareOneSetOfLinks) {
  open();
  std::vector<std::unique_ptr<Workload>> workloads;
  for (int i = 0; i < 130; ++i) {
    workloads.push_back(std::make_unique<Workload>());
    workloads.back()->tell("load " + fixture("libcuda.so.1"));
    watch(*workloads.back());
  }
  EXPECT_EQ(probes_->totals().files, 1u);
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    workloads[i]->tell(fmt::format("call cuLaunchKernel {}", i + 1));
  }
  const auto seen = drain();
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    EXPECT_EQ(counted(seen, workloads[i]->key(), RUNG_CALL_LAUNCH).entered, i + 1);
  }
}

TEST_F(HostProbesTest, ProcessesThatDieWhileTheyAreLookedAtDoNoHarm) {
  open();
  for (int i = 0; i < 30; ++i) {
    Workload workload;
    workload.tell("load " + fixture("libcuda.so.1"));
    const ProcessKey key = workload.key();
    workload.send("exit 0");
    const auto watched = probes_->watch(key, workload.pid());
    if (!watched) {
      EXPECT_EQ(watched.error().code, ErrorCode::kNotFound) << watched.error().message;
    }
    drain();
    probes_->unwatch(key);
  }
  EXPECT_EQ(probes_->totals().processes, 0u);
}

TEST_F(HostProbesTest, TheGovernorThinsLaunchesAndSaysSo) {
  config_.budget_share = 1e-9;
  open();
  Workload workload;
  workload.tell("load " + fixture("libcuda.so.1"));
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  const ProcessKey key = workload.key();
  UnixNs now = unix_ns(unix_now_ns());
  std::vector<Observation> out;
  const auto tick = [&](int seconds) {
    now += std::chrono::seconds(seconds);
    out.clear();
    probes_->drain(now, out);
    probes_->govern(now, out);
  };
  tick(1);
  workload.tell("call cuLaunchKernel 1000");
  tick(1);
  auto health = of<HealthEvent>(out, key);
  ASSERT_EQ(health.size(), 1u);
  EXPECT_EQ(health[0].kind, HealthEvent::Kind::kProbesThinned);
  EXPECT_LT(health[0].value, 100);
  EXPECT_TRUE(probes_->totals().thinned);
  EXPECT_EQ(coverage(workload).reason, Reason::kOverBudget);
  // Off: launches are no longer seen, collectives are.
  workload.tell("call cuLaunchKernel 500");
  workload.tell("init 0 4 2 77");
  workload.tell(all_reduce(1, 10, 0));
  tick(1);
  EXPECT_EQ(counted(out, key, RUNG_CALL_LAUNCH).entered, 1000u);
  EXPECT_TRUE(of<HostCallStats>(out, key).back().launches_thinned);
  EXPECT_EQ(of<CollectiveBatch>(out, key).size(), 1u);
  // On again after the period, for a look.
  tick(120);
  workload.tell("call cuLaunchKernel 5");
  tick(0);
  EXPECT_EQ(counted(out, key, RUNG_CALL_LAUNCH).entered, 1005u);
  // Nothing is launched any more: the probes stay on.
  tick(1);
  tick(2);
  tick(2);
  tick(120);
  tick(2);
  EXPECT_FALSE(probes_->totals().thinned);
}

TEST_F(HostProbesTest, AKernelWithoutMultiLinksGetsOneEventForEachProbe) {
  config_.force_perf_fallback = true;
  open();
  EXPECT_FALSE(probes_->totals().multi_links);
  Workload workload;
  workload.tell("load " + fixture("libcuda.so.1"));
  workload.tell("load " + fixture("libnccl.so.2"));
  watch(workload);
  workload.tell("call cuLaunchKernel 100");
  workload.tell("init 0 4 2 77");
  workload.tell(all_reduce(3, 10, 0));
  const auto seen = drain();
  EXPECT_EQ(counted(seen, workload.key(), RUNG_CALL_LAUNCH).entered, 100u);
  EXPECT_EQ(indices(of<CollectiveBatch>(seen, workload.key())),
            (std::vector<std::optional<std::uint64_t>>{0, 1, 2}));
}

TEST_F(HostProbesTest, TheFallbackIsNotTakenWhereItIsNotAllowed) {
  config_.force_perf_fallback = true;
  config_.allow_perf_fallback = false;
  Reason why = Reason::kNone;
  ASSERT_FALSE(HostProbes::open(config_, &why));
  EXPECT_EQ(why, Reason::kNoKernelSupport);
}

TEST_F(HostProbesTest, ThreadsThatCallAtOnceAreAllCounted) {
  open();
  Workload workload;
  workload.tell("load " + fixture("libcuda.so.1"));
  watch(workload);
  for (int i = 0; i < 4; ++i) workload.tell("spin cuLaunchKernel");
  std::set<std::int32_t> threads;
  while (threads.size() < 4) {
    for (const auto& call : of<InFlightCall>(drain(), workload.key())) threads.insert(call.tid);
  }
  // Each thread knows its own number of calls; together they are the count of the class.
  std::vector<Observation> seen = drain();
  std::uint64_t sum = 0;
  for (const auto& call : of<InFlightCall>(seen, workload.key())) sum += call.calls_so_far;
  EXPECT_GE(sum, counted(seen, workload.key(), RUNG_CALL_LAUNCH).entered);
}

}  // namespace
}  // namespace rung
