#include "export/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "export/limits.h"
#include "golden.h"
#include "samples.h"

namespace rung {
namespace {

using namespace rung::testing;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> lines_of(const std::string& page) {
  std::vector<std::string> out;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) out.push_back(line);
  return out;
}

// The exposition format as its specification states it, line by line.
void expect_valid_page(const std::string& page) {
  static const std::regex kHelp(R"(# HELP ([a-z_:][a-z0-9_:]*) .+)");
  static const std::regex kType(R"(# TYPE ([a-z_:][a-z0-9_:]*) (gauge|counter))");
  static const std::regex kSample(
      R"(([a-z_:][a-z0-9_:]*)(\{([a-z_]+="([^"\\]|\\["\\n])*"(,|(?=\})))+\})? )"
      R"((-?[0-9.]+(e[+-]?[0-9]+)?|[+-]Inf))");
  std::set<std::string> families;
  std::set<std::string> series;
  std::string family;
  std::string type;
  ASSERT_TRUE(page.empty() || page.back() == '\n');
  for (const std::string& line : lines_of(page)) {
    std::smatch match;
    if (std::regex_match(line, match, kHelp)) {
      family = match[1];
      EXPECT_TRUE(families.insert(family).second) << "family twice: " << line;
    } else if (std::regex_match(line, match, kType)) {
      EXPECT_EQ(match[1], family);
      type = match[2];
      EXPECT_EQ(type == "counter", family.ends_with("_total")) << line;
    } else {
      ASSERT_TRUE(std::regex_match(line, match, kSample)) << line;
      EXPECT_EQ(match[1], family) << "series outside its family";
      EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << "twice: " << line;
    }
  }
}

std::size_t count_with(const std::string& page, const std::string& text) {
  std::size_t count = 0;
  for (const std::string& line : lines_of(page)) {
    if (line[0] != '#' && line.find(text) != std::string::npos) ++count;
  }
  return count;
}

DeviceSample full_device() {
  DeviceSample device = device_of(0, 50);
  device.memory_total_bytes = 1;
  device.memory_clock_mhz = device.temperature_celsius = device.sm_active_percent =
      device.sm_occupancy_percent = device.tensor_active_percent = device.dram_active_percent = 1;
  device.nvlink_tx_kib = device.nvlink_rx_kib = 2;
  device.clock_event_reasons = 3;
  return device;
}

TEST(Prometheus, AHangIsAValidPage) {
  const JobView job = hung_job(2, 1);
  const std::string page =
      prometheus_text({job}, {hang_verdict(job, 1)}, some_agent(), {full_device()});
  expect_valid_page(page);
  EXPECT_THAT(page, HasSubstr(R"(rung_verdict_active{job="slurm:4242.0",)"
                              R"(kind="hang.rank_not_joined",severity="error",)"
                              R"(confidence="established"} 1)"));
  EXPECT_THAT(page,
              HasSubstr(R"(rung_rank_last_call_age_seconds{job="slurm:4242.0",rank="1"} 12.6)"));
  EXPECT_THAT(page, HasSubstr(R"(rung_worker_blocked_seconds{device="GPU-0000-0"} 45)"));
  EXPECT_THAT(page, HasSubstr(R"(rung_device_sm_clock_hertz{device="GPU-0000-0"} 1980000000)"));
  EXPECT_THAT(page,
              HasSubstr(R"(rung_device_nvlink_received_bytes_total{device="GPU-0000-0"} 2048)"));
  expect_golden("hang.prom", page);
}

TEST(Prometheus, NamesOfFunctionsAndCommunicatorsAreNoLabels) {
  const JobView job = hung_job(2, 1);
  const std::string page = prometheus_text({job}, {hang_verdict(job, 1)}, some_agent(), {});
  EXPECT_THAT(page, Not(HasSubstr("cuStreamSynchronize")));
  EXPECT_THAT(page, Not(HasSubstr("9250b9ac1b69107a")));
}

TEST(Prometheus, AbsentEvidenceHasNoSeries) {
  JobView job;
  job.job.text = "run:1-2";
  job.ranks.resize(1);
  job.ranks[0].rank = RankId{0};
  const std::string page = prometheus_text({job}, {}, AgentHealth{}, {DeviceSample{}});
  expect_valid_page(page);
  for (const char* family :
       {"rung_rank_state{", "rung_rank_last_call_age", "rung_rank_cpu_cores",
        "rung_rank_collectives_entered", "rung_coverage_stage", "rung_job_world_size",
        "rung_job_progress_age", "rung_device_utilization", "rung_device_power",
        "rung_agent_last_tick", "rung_agent_probe_cost", "rung_verdict_active"}) {
    EXPECT_THAT(page, Not(HasSubstr(family)));
  }
}

TEST(Prometheus, ARankHasAtMostFortySeries) {
  JobView job = hung_job(1, 0);
  RankView& rank = job.ranks[0];
  rank.last_launch_at = ago(1);
  rank.activity.cpu_outside_cuda_share = 0.5;
  rank.activity.read_bytes = 10U;
  rank.activity.written_bytes = 10U;
  rank.coverage.clear();
  for (int rung = 0; rung < 8; ++rung) {
    rank.coverage.push_back(coverage_of(static_cast<Rung>(rung), Stage::kFlowing));
    rank.coverage.push_back(coverage_of(static_cast<Rung>(rung), Stage::kStale));
  }
  AgentHealth agent = some_agent();
  agent.workers.clear();
  const std::string page = prometheus_text({job}, {}, agent, {full_device()});
  expect_valid_page(page);
  const std::size_t series = count_with(page, "rank=\"0\"") + count_with(page, "rung_device_");
  EXPECT_EQ(series, limits::kSeriesPerRank);
}

TEST(Prometheus, OverflowIsSummedAndCounted) {
  std::vector<JobView> jobs;
  for (std::size_t i = 0; i < limits::kExportedJobs + 5; ++i) {
    JobView job = hung_job(16, 3);
    job.job.text = "run:" + std::to_string(i);
    jobs.push_back(job);
  }
  const std::vector<DeviceSample> devices(limits::kExportedDevices + 2, full_device());
  AgentHealth agent = some_agent();
  agent.workers.resize(limits::kExportedWorkers + 3);
  const std::string page = prometheus_text(jobs, {}, agent, devices);
  expect_valid_page(page);
  const std::size_t all_ranks = jobs.size() * 16;
  EXPECT_EQ(count_with(page, "rung_rank_info{"), limits::kExportedRanks);
  EXPECT_EQ(count_with(page, "rung_job_info{"), limits::kExportedJobs);
  EXPECT_THAT(page, HasSubstr("rung_export_omitted{of=\"job\"} 5\n"));
  EXPECT_THAT(page, HasSubstr("rung_export_omitted{of=\"rank\"} " +
                              std::to_string(all_ranks - limits::kExportedRanks) + "\n"));
  EXPECT_THAT(page, HasSubstr("rung_export_omitted{of=\"device\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("rung_export_omitted{of=\"worker\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("rung_job_ranks_observed{job=\"other\"} 80\n"));
  EXPECT_THAT(page, HasSubstr(R"(rung_rank_state{job="other",rank="other",state="running"} 75)"));
}

TEST(Prometheus, TheSameIdTwiceKeepsTheLiveJobAndIsCounted) {
  JobView old = hung_job(1, 0);
  old.ended = true;
  JobView live = hung_job(1, 0);
  live.attempt = 1;
  const std::string page = prometheus_text({old, live}, {}, AgentHealth{}, {});
  expect_valid_page(page);
  EXPECT_THAT(page, HasSubstr(R"(rung_job_state{job="slurm:4242.0",state="unknown"} 1)"));
  EXPECT_THAT(page, ::testing::ContainsRegex("rung_export_omitted.of=\"duplicate\". [1-9]"));
}

TEST(Prometheus, LabelsAreEscapedAndBounded) {
  JobView job = hung_job(1, 0);
  job.job.text = "a\\b\"c\nd\xff";
  job.label = std::string(10'000, 'x');
  const std::string page = prometheus_text({job}, {}, AgentHealth{}, {});
  expect_valid_page(page);
  EXPECT_THAT(page, HasSubstr(R"(job="a\\b\"c?d?")"));
  EXPECT_THAT(page, Not(HasSubstr(std::string(limits::kLabelBytes + 1, 'x'))));
}

}  // namespace
}  // namespace rung
