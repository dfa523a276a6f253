#include "sources/host_probes/comm_tracker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "model/limits.h"
#include "sources/host_probes/function_table.h"

namespace rung {
namespace {

std::uint32_t function(std::string_view name) {
  const auto table = function_table();
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    if (table[i].name == name) return i;
  }
  ADD_FAILURE() << name;
  return 0;
}

class CommTrackerTest : public ::testing::Test {
 protected:
  using Indices = std::vector<std::optional<std::uint64_t>>;

  rung_collective_event collective(std::uint64_t comm, std::uint64_t hash, std::uint64_t base) {
    rung_collective_event event{};
    event.head.kind = RUNG_EVENT_COLLECTIVE;
    event.head.function = function("ncclAllReduce");
    event.head.mono_ns = ++mono_;
    event.comm = {comm, hash, 1, 4};
    event.base = base;
    event.count = 10;
    event.flags = RUNG_EVENT_IDENTIFIED | RUNG_EVENT_BASE | RUNG_EVENT_NUMBERED;
    return event;
  }
  void enter(std::uint64_t comm, std::uint64_t hash, std::uint64_t base) {
    tracker_.on_collective(collective(comm, hash, base));
  }
  rung_comm_event init(std::uint64_t out, std::uint8_t id_byte) {
    rung_comm_event event{};
    event.head.kind = RUNG_EVENT_COMM;
    event.head.function = function("ncclCommInitRank");
    event.head.mono_ns = ++mono_;
    event.out = out;
    event.nranks = 4;
    event.rank = 1;
    event.has_unique_id = 1;
    std::memset(event.unique_id, id_byte, sizeof event.unique_id);
    return event;
  }
  std::vector<CollectiveBatch> settle(bool lost = false) {
    return tracker_.settle(static_cast<std::int64_t>(mono_), 0, lost);
  }
  static Indices indices(const std::vector<CollectiveBatch>& batches) {
    Indices out;
    for (const CollectiveBatch& batch : batches) {
      for (std::size_t i = 0; i < batch.entries.size(); ++i) {
        out.push_back(batch.first_index ? std::optional(*batch.first_index + i) : std::nullopt);
      }
    }
    return out;
  }
  static constexpr auto kNone = std::nullopt;

  std::uint64_t mono_ = 1'000'000'000;
  std::map<std::uint64_t, std::uint64_t> memory_;  // address -> 8 bytes
  std::vector<rung_comm_layout> layouts_ = layout_table();
  CommTracker tracker_{layouts_, [this](std::uint64_t address, void* out, std::size_t bytes) {
                         const auto found = memory_.find(address);
                         if (found == memory_.end() || bytes != 8) return false;
                         std::memcpy(out, &found->second, 8);
                         return true;
                       }};
};

TEST_F(CommTrackerTest, TheFirstIsHeldUntilTheNextConfirmsIt) {
  enter(0x10, 7, 100);
  EXPECT_TRUE(settle().empty());
  enter(0x10, 7, 101);
  EXPECT_EQ(indices(settle()), (Indices{100, 101}));
}

TEST_F(CommTrackerTest, ASilentSecondConfirmsTheFirst) {
  enter(0x10, 7, 100);
  mono_ += 1'000'000'000;
  EXPECT_EQ(indices(settle()), (Indices{100}));
}

TEST_F(CommTrackerTest, ACommunicatorWhoseNumbersLagGetsNoneUntilTheyCatchUp) {
  enter(0x10, 7, 100);
  enter(0x10, 7, 101);
  enter(0x10, 7, 101);  // the one before has not been launched yet
  enter(0x10, 7, 103);
  EXPECT_EQ(indices(settle()), (Indices{100, 101, kNone, 103}));
}

TEST_F(CommTrackerTest, NumbersThatStandStillAreNone) {
  for (int i = 0; i < 4; ++i) enter(0x10, 7, 100);
  EXPECT_EQ(indices(settle()), (Indices{kNone, kNone, kNone, kNone}));
}

TEST_F(CommTrackerTest, AGapStartsAnotherBatch) {
  enter(0x10, 7, 0);
  enter(0x10, 7, 1);
  enter(0x10, 7, 5);
  const auto batches = settle();
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].first_index, 0u);
  EXPECT_EQ(batches[1].first_index, 5u);
}

TEST_F(CommTrackerTest, MemoryUsedAgainIsAnotherCommunicator) {
  enter(0x10, 7, 3);
  enter(0x10, 7, 4);
  enter(0x10, 8, 0);
  enter(0x10, 8, 1);
  const auto batches = settle();
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].comm.id.hash, 7u);
  EXPECT_EQ(batches[0].first_index, 3u);
  EXPECT_EQ(batches[1].comm.id.hash, 8u);
  EXPECT_EQ(batches[1].first_index, 0u);
}

TEST_F(CommTrackerTest, WhatWasEnteredBeforeADestroyIsStillTold) {
  enter(0x10, 7, 3);
  enter(0x10, 7, 4);
  rung_comm_event destroy{};
  destroy.head.function = function("ncclCommDestroy");
  destroy.comm = {0x10, 7, 1, 4};
  destroy.flags = RUNG_EVENT_IDENTIFIED;
  tracker_.on_comm(destroy);
  EXPECT_EQ(indices(settle()), (Indices{3, 4}));
  const auto events = tracker_.take_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].event.what, CommEvent::What::kDestroyed);
  EXPECT_EQ(events[0].event.comm.id.hash, 7u);
  EXPECT_TRUE(tracker_.is_gone(
      {.comm = 0x10, .comm_hash = 7, .slot = 0, .generation = 0, .peer = 0, .pad = 0}));
}

TEST_F(CommTrackerTest, AnInitIsMatchedOnlyByTheVariableItWasGiven) {
  tracker_.on_comm(init(0x500, 1));
  tracker_.on_comm(init(0x508, 2));
  memory_[0x500] = 0xdead;  // left over from before: not what is used
  memory_[0x508] = 0x20;
  rung_collective_event event = collective(0x20, 0, 0);
  event.flags = RUNG_EVENT_NUMBERED;
  tracker_.on_collective(event);
  tracker_.on_collective(event);
  const auto batches = settle();
  ASSERT_EQ(batches.size(), 1u);
  const std::vector<std::uint8_t> id(128, 2);
  EXPECT_EQ(batches[0].comm.id, (CommId{unique_id_hash(id), CommId::Source::kUniqueId}));
  EXPECT_EQ(batches[0].first_index, 0u);
  const auto events = tracker_.take_events();
  EXPECT_EQ(
      std::count_if(events.begin(), events.end(),
                    [](const auto& one) { return one.event.what == CommEvent::What::kInitDone; }),
      1);
}

TEST_F(CommTrackerTest, OurOwnCountDoesNotSurviveALoss) {
  tracker_.on_comm(init(0x500, 1));
  memory_[0x500] = 0x20;
  rung_collective_event event = collective(0x20, 0, 0);
  event.flags = RUNG_EVENT_NUMBERED;
  tracker_.on_collective(event);
  EXPECT_EQ(indices(settle()), (Indices{0}));
  tracker_.on_collective(event);
  EXPECT_EQ(indices(settle(true)), (Indices{kNone}));
  tracker_.on_collective(event);
  EXPECT_EQ(indices(settle()), (Indices{kNone}));
}

TEST_F(CommTrackerTest, ACommunicatorOfOneHasNoNumbers) {
  rung_collective_event event = collective(0x10, 7, 0);
  event.comm.rank = 0;
  event.comm.size = 1;
  tracker_.on_collective(event);
  tracker_.on_collective(event);
  EXPECT_EQ(indices(settle()), (Indices{kNone, kNone}));
}

TEST_F(CommTrackerTest, CommunicatorsAreBoundedAndTheRestCounted) {
  for (std::uint64_t i = 1; i <= limits::kCommsPerRank + 5; ++i) enter(i << 12, i, 0);
  EXPECT_EQ(tracker_.over_bound(), 5u);
}

}  // namespace
}  // namespace rung
