#include "sources/nvml/wire.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

namespace rung::vendor {
namespace {

TEST(Wire, AbsentNumbersStayAbsent) {
  DeviceSample sample;
  sample.device.uuid = "GPU-1";
  sample.index = 3;
  const DeviceSample back = from_wire(to_wire(sample), true);
  EXPECT_EQ(back.device.uuid, "GPU-1");
  EXPECT_EQ(back.index, 3);
  EXPECT_TRUE(back.simulated);
  EXPECT_FALSE(back.utilization_percent);
  EXPECT_FALSE(back.memory_used_bytes);
  EXPECT_FALSE(back.nvlink_rx_kib);
  EXPECT_TRUE(back.compute_pids.empty());
}

TEST(Wire, EveryNumberComesBack) {
  DeviceSample sample;
  sample.utilization_percent = 0;  // zero is known
  sample.memory_used_bytes = 1;
  sample.memory_total_bytes = 2;
  sample.power_watts = 3.5;
  sample.sm_clock_mhz = 4;
  sample.memory_clock_mhz = 5;
  sample.temperature_celsius = 6;
  sample.clock_event_reasons = 7;
  sample.sm_active_percent = 8.5;
  sample.sm_occupancy_percent = 9;
  sample.tensor_active_percent = 10;
  sample.dram_active_percent = 11;
  sample.nvlink_tx_kib = 12;
  sample.nvlink_rx_kib = std::numeric_limits<std::uint64_t>::max();
  sample.compute_pids = {1, 2, 3};
  const DeviceSample back = from_wire(to_wire(sample), false);
  EXPECT_EQ(back.utilization_percent, 0);
  EXPECT_EQ(back.memory_used_bytes, 1u);
  EXPECT_EQ(back.memory_total_bytes, 2u);
  EXPECT_EQ(back.power_watts, 3.5);
  EXPECT_EQ(back.sm_clock_mhz, 4);
  EXPECT_EQ(back.memory_clock_mhz, 5);
  EXPECT_EQ(back.temperature_celsius, 6);
  EXPECT_EQ(back.clock_event_reasons, 7u);
  EXPECT_EQ(back.sm_active_percent, 8.5);
  EXPECT_EQ(back.sm_occupancy_percent, 9);
  EXPECT_EQ(back.tensor_active_percent, 10);
  EXPECT_EQ(back.dram_active_percent, 11);
  EXPECT_EQ(back.nvlink_tx_kib, 12u);
  EXPECT_EQ(back.nvlink_rx_kib, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(back.compute_pids, (std::vector<std::int32_t>{1, 2, 3}));
}

TEST(Wire, DamagedAnswersAreRefused) {
  const auto answer = std::make_unique<Answer>();
  EXPECT_TRUE(checked_answer(answer.get(), sizeof *answer));
  EXPECT_FALSE(checked_answer(answer.get(), sizeof *answer - 1));
  EXPECT_FALSE(checked_answer(answer.get(), 0));
  answer->version = kVersion + 1;
  EXPECT_FALSE(checked_answer(answer.get(), sizeof *answer));
  answer->version = kVersion;
  answer->sample.pid_count = kMostPids + 1;
  EXPECT_FALSE(checked_answer(answer.get(), sizeof *answer));
  answer->sample.pid_count = 0;
  answer->device_count = 1000;
  EXPECT_FALSE(checked_answer(answer.get(), sizeof *answer));
}

TEST(Wire, TextWithoutEndAndNumbersThatAreNone) {
  const auto answer = std::make_unique<Answer>();
  answer->sample.name.fill('x');
  answer->sample.present = ~0U;
  answer->sample.reals.fill(std::numeric_limits<double>::quiet_NaN());
  const DeviceSample sample = from_wire(answer->sample, false);
  EXPECT_EQ(sample.name.size(), answer->sample.name.size());
  EXPECT_FALSE(sample.power_watts);
}

}  // namespace
}  // namespace rung::vendor
