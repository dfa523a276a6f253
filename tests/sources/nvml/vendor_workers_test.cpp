#include "sources/nvml/vendor_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/files.h"

namespace rung {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class VendorWorkersTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rung_nvml_XXXXXX";
    folder_ = ::mkdtemp(name);
    ::setenv("FAKE_NVML", folder_.c_str(), 1);
    config_.executable = RUNG_TEST_WORKER;
    config_.library = RUNG_FAKE_NVML;
    config_.first_backoff = 1ms;
    config_.last_backoff = 10ms;
  }
  void TearDown() override {
    workers_.reset();
    fs::remove_all(folder_);
  }

  void set(const std::string& file, const std::string& text = "") {
    std::ofstream(folder_ + "/" + file) << text;
  }
  void unset(const std::string& file) { fs::remove(folder_ + "/" + file); }

  void start() {
    auto started = VendorWorkers::start(config_);
    ASSERT_TRUE(started) << started.error().message;
    workers_ = std::move(*started);
  }

  // Asks and collects until `enough` or a minute is over.
  bool run_until(const std::function<bool()>& enough) {
    for (int i = 0; i < 6000; ++i) {
      workers_->request_samples();
      workers_->collect(unix_ns(unix_now_ns()), seen_);
      if (enough()) return true;
      std::vector<pollfd> polled;
      for (const int fd : workers_->fds()) polled.push_back({fd, POLLIN, 0});
      ::poll(polled.data(), polled.size(), 10);
    }
    return false;
  }

  template <class T>
  std::vector<T> all() const {
    std::vector<T> out;
    for (const Observation& one : seen_) {
      if (const T* what = std::get_if<T>(&one.what)) out.push_back(*what);
    }
    return out;
  }
  std::size_t count(HealthEvent::Kind kind) const {
    std::size_t found = 0;
    for (const HealthEvent& event : all<HealthEvent>()) found += event.kind == kind;
    return found;
  }
  bool all_blocked() const {
    const auto workers = workers_->health();
    return std::all_of(workers.begin(), workers.end(),
                       [](const auto& worker) { return worker.blocked; });
  }
  bool none_blocked() const {
    const auto workers = workers_->health();
    return std::none_of(workers.begin(), workers.end(),
                        [](const auto& worker) { return worker.blocked; });
  }
  // For each device: blocked, returned, blocked... A slow machine may block a call or two of its
  // own, but none is ever reported twice.
  void expect_alternation() const {
    std::map<std::string, bool> blocked;
    for (const HealthEvent& event : all<HealthEvent>()) {
      const bool now = event.kind == HealthEvent::Kind::kVendorCallBlocked;
      EXPECT_NE(std::exchange(blocked[event.what], now), now) << event.what;
      EXPECT_GT(event.value, 0);
    }
  }
  std::vector<DeviceSample> samples_of(int index) const {
    std::vector<DeviceSample> out;
    for (const DeviceSample& sample : all<DeviceSample>()) {
      if (sample.index == index) out.push_back(sample);
    }
    return out;
  }

  std::string folder_;
  VendorWorkersConfig config_;
  std::unique_ptr<VendorWorkers> workers_;
  std::vector<Observation> seen_;
};

TEST_F(VendorWorkersTest, SamplesEveryDevice) {
  start();
  const auto has_gpm = [&] {
    const auto samples = samples_of(1);
    return !samples.empty() && samples.back().sm_active_percent && !samples_of(0).empty();
  };
  ASSERT_TRUE(run_until(has_gpm));
  const DeviceSample first = samples_of(1).front();
  EXPECT_EQ(first.device.uuid, "GPU-fake-1");
  EXPECT_EQ(first.name, "Fake H200");
  EXPECT_EQ(first.utilization_percent, 92);
  EXPECT_EQ(first.memory_total_bytes, 1000u);
  EXPECT_EQ(first.memory_used_bytes, 300u);
  EXPECT_DOUBLE_EQ(first.power_watts.value_or(0), 688.5);
  EXPECT_EQ(first.sm_clock_mhz, 1980);
  EXPECT_EQ(first.memory_clock_mhz, 3201);
  EXPECT_EQ(first.temperature_celsius, 64);
  EXPECT_EQ(first.clock_event_reasons, 4u);
  EXPECT_EQ(first.nvlink_tx_kib, 138000u);
  EXPECT_EQ(first.nvlink_rx_kib, 139000u);
  EXPECT_THAT(first.compute_pids, testing::ElementsAre(4000, 4001, 4002));
  EXPECT_TRUE(first.simulated);
  EXPECT_FALSE(first.sm_active_percent);  // needs two looks
  const DeviceSample last = samples_of(1).back();
  EXPECT_EQ(last.sm_active_percent, 2.5);
  EXPECT_EQ(last.sm_occupancy_percent, 3.5);
  EXPECT_EQ(last.dram_active_percent, 10.5);
  EXPECT_FALSE(last.tensor_active_percent);  // that metric is not supported
  EXPECT_EQ(workers_->coverage().stage, Stage::kFlowing);
  EXPECT_EQ(workers_->health().size(), 2u);
  for (const WorkerHealth& health : workers_->health()) {
    EXPECT_FALSE(health.blocked);
    EXPECT_GT(health.resident_bytes, 0u);
  }
}

TEST_F(VendorWorkersTest, ARealLibraryIsNotSimulated) {
  config_.library = RUNG_FAKE_NVML_REAL;
  start();
  ASSERT_TRUE(run_until([&] { return !samples_of(0).empty(); }));
  EXPECT_FALSE(samples_of(0)[0].simulated);
}

TEST_F(VendorWorkersTest, UnsupportedIsAbsentNotZero) {
  set("unsupported");
  start();
  ASSERT_TRUE(run_until([&] { return samples_of(0).size() >= 2; }));
  const DeviceSample sample = samples_of(0).back();
  EXPECT_EQ(sample.device.uuid, "GPU-fake-0");
  EXPECT_FALSE(sample.utilization_percent);
  EXPECT_FALSE(sample.memory_used_bytes);
  EXPECT_FALSE(sample.power_watts);
  EXPECT_FALSE(sample.sm_clock_mhz);
  EXPECT_FALSE(sample.clock_event_reasons);
  EXPECT_FALSE(sample.nvlink_tx_kib);
  EXPECT_FALSE(sample.sm_active_percent);
  EXPECT_TRUE(sample.compute_pids.empty());
}

TEST_F(VendorWorkersTest, WideProcessEntriesAreRead) {
  set("wide");
  start();
  ASSERT_TRUE(run_until([&] { return !samples_of(0).empty(); }));
  EXPECT_THAT(samples_of(0)[0].compute_pids, testing::ElementsAre(4000, 4001, 4002));
}

TEST_F(VendorWorkersTest, ALostGpuIsAReadableStateAndComesBack) {
  start();
  ASSERT_TRUE(run_until([&] { return !samples_of(0).empty(); }));
  set("lost");
  const auto lost = [&] {
    for (const CoverageChange& change : all<CoverageChange>()) {
      if (change.coverage.reason == Reason::kVendorError &&
          change.coverage.detail.find("GPU is lost") != std::string::npos) {
        return true;
      }
    }
    return false;
  };
  ASSERT_TRUE(run_until(lost));
  unset("lost");
  seen_.clear();
  ASSERT_TRUE(run_until([&] { return !samples_of(0).empty() && !samples_of(1).empty(); }));
  for (const CoverageChange& change : all<CoverageChange>()) {
    EXPECT_FALSE(change.coverage.detail.empty());
  }
}

TEST_F(VendorWorkersTest, ABlockedCallIsReportedOnceAndAgainWhenItReturns) {
  config_.deadline = 20ms;
  start();
  ASSERT_TRUE(run_until([&] { return !samples_of(0).empty() && !samples_of(1).empty(); }));
  set("block");
  ASSERT_TRUE(run_until([&] { return all_blocked(); }));
  const std::size_t reports = count(HealthEvent::Kind::kVendorCallBlocked);
  EXPECT_EQ(reports, count(HealthEvent::Kind::kVendorCallReturned) + 2);
  for (const WorkerHealth& health : workers_->health()) EXPECT_GT(health.blocked_seconds, 0);
  for (int i = 0; i < 10; ++i) run_until([] { return true; });
  EXPECT_EQ(count(HealthEvent::Kind::kVendorCallBlocked), reports);
  unset("block");
  ASSERT_TRUE(run_until([&] { return none_blocked(); }));
  EXPECT_EQ(count(HealthEvent::Kind::kVendorCallBlocked),
            count(HealthEvent::Kind::kVendorCallReturned));
  expect_alternation();
  for (const HealthEvent& event : all<HealthEvent>()) {
    EXPECT_TRUE(event.what == "all" || event.what.find("GPU-fake-") != std::string::npos);
  }
}

TEST_F(VendorWorkersTest, ABlockedWorkerIsKilledAndReplaced) {
  config_.deadline = 10ms;
  config_.kill_after = 500ms;
  start();
  ASSERT_TRUE(run_until([&] { return workers_->health().size() == 2; }));
  set("block");
  ASSERT_TRUE(run_until([&] { return all_blocked(); }));
  const std::size_t reports = count(HealthEvent::Kind::kVendorCallBlocked);
  const auto restarted = [&] {
    const auto workers = workers_->health();
    return std::all_of(workers.begin(), workers.end(),
                       [](const auto& worker) { return worker.restarts >= 2; });
  };
  ASSERT_TRUE(run_until(restarted));
  // It stays blocked across restarts: nothing has returned, and nothing is reported again.
  EXPECT_TRUE(all_blocked());
  EXPECT_EQ(count(HealthEvent::Kind::kVendorCallBlocked), reports);
  unset("block");
  ASSERT_TRUE(run_until([&] { return none_blocked(); }));
  expect_alternation();
}

TEST_F(VendorWorkersTest, AWorkerThatDiesIsReplaced) {
  start();
  ASSERT_TRUE(run_until([&] { return !samples_of(0).empty(); }));
  const std::int32_t old = workers_->health()[0].pid;
  ::kill(old, SIGKILL);
  ASSERT_TRUE(run_until([&] { return workers_->health()[0].restarts == 1; }));
  seen_.clear();
  ASSERT_TRUE(run_until([&] { return !samples_of(0).empty(); }));
  EXPECT_NE(workers_->health()[0].pid, old);
}

TEST_F(VendorWorkersTest, AVendorLibraryThatCrashesTakesOnlyItsWorker) {
  set("crash");
  start();
  ASSERT_TRUE(run_until(
      [&] { return workers_->health().size() == 2 && workers_->health()[0].restarts >= 2; }));
  unset("crash");
  ASSERT_TRUE(run_until([&] { return !samples_of(0).empty(); }));
}

TEST_F(VendorWorkersTest, EnumerationItselfMayBlock) {
  set("block_count");
  config_.deadline = 10ms;
  start();
  ASSERT_TRUE(run_until([&] { return count(HealthEvent::Kind::kVendorCallBlocked) == 1; }));
  EXPECT_EQ(workers_->coverage().reason, Reason::kVendorCallBlocked);
  ASSERT_EQ(workers_->health().size(), 1u);
  EXPECT_EQ(workers_->health()[0].device, "all");
  unset("block_count");
  ASSERT_TRUE(run_until([&] { return !samples_of(0).empty(); }));
  EXPECT_EQ(workers_->coverage().stage, Stage::kFlowing);
}

TEST_F(VendorWorkersTest, NoLibraryNoDriverNoDevice) {
  const auto reason = [&] {
    start();
    EXPECT_TRUE(run_until([&] { return workers_->coverage().stage == Stage::kDormant; }));
    EXPECT_FALSE(workers_->coverage().detail.empty());
    return workers_->coverage().reason;
  };
  config_.library = "/nonexistent/libnvidia-ml.so.1";
  EXPECT_EQ(reason(), Reason::kNoDevice);
  config_.library = RUNG_FAKE_NVML;
  set("init_error", "9");
  EXPECT_EQ(reason(), Reason::kNoDevice);
  set("init_error", "18");
  EXPECT_EQ(reason(), Reason::kVendorError);
  unset("init_error");
  set("devices", "0");
  EXPECT_EQ(reason(), Reason::kNoDevice);
}

TEST_F(VendorWorkersTest, AWorkerThatCannotRunIsTriedAgain) {
  config_.executable = "/nonexistent/rung";
  start();
  ASSERT_TRUE(run_until([&] { return workers_->health()[0].restarts >= 2; }));
  EXPECT_EQ(workers_->coverage().stage, Stage::kRequested);
}

TEST_F(VendorWorkersTest, AWorkerInheritsNoDescriptorsAndEndsWithItsSocket) {
  const int leaked = ::dup(0);
  ASSERT_GE(leaked, 0);
  start();
  ASSERT_TRUE(run_until([&] { return !samples_of(0).empty(); }));
  const std::int32_t pid = workers_->health()[0].pid;
  const auto fds = list_folder("/proc/" + std::to_string(pid) + "/fd", 100);
  ASSERT_TRUE(fds);
  EXPECT_THAT(*fds, testing::UnorderedElementsAre("0", "1", "2", "3"));
  ::close(leaked);
  workers_->stop();
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_TRUE(workers_->fds().empty());
}

TEST_F(VendorWorkersTest, TheAgentOpensNoDevice) {
  start();
  ASSERT_TRUE(run_until([&] { return !samples_of(0).empty(); }));
  const auto maps = read_file("/proc/self/maps", 1 << 20);
  ASSERT_TRUE(maps);
  EXPECT_EQ(maps->find("fake_nvml"), std::string::npos) << "the library is mapped in the agent";
}

}  // namespace
}  // namespace rung
