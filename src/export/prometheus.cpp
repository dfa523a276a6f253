#include "export/prometheus.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "export/limits.h"
#include "export/metric_page.h"
#include "export/summary.h"

namespace rung {
namespace {

using view::MetricFamily;
using view::MetricPage;
constexpr auto kGauge = view::MetricType::kGauge;
constexpr auto kCounter = view::MetricType::kCounter;
constexpr const char* kOther = "other";

// --- ranks: 40 series each at most, with the 14 of its device ---

constexpr MetricFamily kRankInfo{"rung_rank_info", kGauge, "Who a rank is; always 1"};
constexpr MetricFamily kRankState{
    "rung_rank_state", kGauge,
    "Process state of a rank; 1 for the present one; rank=\"other\" counts ranks beyond the limit"};
constexpr MetricFamily kLastCallAge{"rung_rank_last_call_age_seconds", kGauge,
                                    "Time since a probed call of any thread was entered"};
constexpr MetricFamily kLastLaunchAge{"rung_rank_last_launch_age_seconds", kGauge,
                                      "Time since a kernel or graph launch was seen"};
constexpr MetricFamily kLastCollectiveAge{"rung_rank_last_collective_age_seconds", kGauge,
                                          "Time since a collective was entered"};
constexpr MetricFamily kEntered{
    "rung_rank_collectives_entered", kGauge,
    "Collectives entered on the largest communicator of the rank, absolute"};
constexpr MetricFamily kCpuCores{"rung_rank_cpu_cores", kGauge, "Cores in use"};
constexpr MetricFamily kCpuOutsideCuda{"rung_rank_cpu_outside_cuda_cores", kGauge,
                                       "Cores in use outside CUDA and NCCL, while sampled"};
constexpr MetricFamily kReadRate{"rung_rank_read_bytes_per_second", kGauge,
                                 "Bytes read, by any read call or from storage"};
constexpr MetricFamily kWriteRate{"rung_rank_written_bytes_per_second", kGauge, "Bytes written"};
constexpr MetricFamily kStage{"rung_coverage_stage", kGauge,
                              "Stage that a rung reached on a rank; 1 for the present one"};
constexpr MetricFamily kCoverageLost{"rung_coverage_lost_records_total", kCounter,
                                     "Records known to be lost on a rung that flows"};

// --- jobs ---

constexpr MetricFamily kJobInfo{"rung_job_info", kGauge, "Who a job is; always 1"};
constexpr MetricFamily kJobState{"rung_job_state", kGauge, "State of a job; 1 for the present one"};
constexpr MetricFamily kObserved{
    "rung_job_ranks_observed", kGauge,
    "Ranks seen on this node; job=\"other\" sums jobs beyond the limit"};
constexpr MetricFamily kWorldSize{"rung_job_world_size", kGauge, "Ranks in all"};
constexpr MetricFamily kProgressAge{"rung_job_progress_age_seconds", kGauge,
                                    "Time since any rank of the job moved"};
constexpr MetricFamily kCollectiveRate{"rung_job_collectives_per_second", kGauge,
                                       "Collectives a second over the last 10 s"};
constexpr MetricFamily kVerdictActive{"rung_verdict_active", kGauge, "Verdicts that stand now"};
constexpr MetricFamily kVerdictRanks{"rung_verdict_ranks", kGauge, "Ranks that a verdict names"};
constexpr MetricFamily kVerdictSince{"rung_verdict_since_timestamp_seconds", kGauge,
                                     "When the situation began, unix time"};

// --- devices ---

constexpr MetricFamily kDeviceInfo{"rung_device_info", kGauge, "Which device it is; always 1"};
constexpr MetricFamily kUtilization{
    "rung_device_utilization_ratio", kGauge,
    "Share of time in which some kernel was resident; says nothing about efficiency"};
constexpr MetricFamily kMemoryUsed{"rung_device_memory_used_bytes", kGauge, "Device memory in use"};
constexpr MetricFamily kMemoryTotal{"rung_device_memory_bytes", kGauge, "Device memory in all"};
constexpr MetricFamily kPower{"rung_device_power_watts", kGauge, "Power draw"};
constexpr MetricFamily kSmClock{"rung_device_sm_clock_hertz", kGauge, "Clock of the SMs"};
constexpr MetricFamily kMemoryClock{"rung_device_memory_clock_hertz", kGauge,
                                    "Clock of the memory"};
constexpr MetricFamily kTemperature{"rung_device_temperature_celsius", kGauge, "Temperature"};
constexpr MetricFamily kSmActive{"rung_device_sm_active_ratio", kGauge,
                                 "Share of SM cycles with a warp resident (GPM)"};
constexpr MetricFamily kSmOccupancy{"rung_device_sm_occupancy_ratio", kGauge,
                                    "Resident warps over what fits (GPM)"};
constexpr MetricFamily kTensorActive{"rung_device_tensor_active_ratio", kGauge,
                                     "Share of cycles with tensor cores active (GPM)"};
constexpr MetricFamily kDramActive{"rung_device_dram_active_ratio", kGauge,
                                   "Share of cycles with memory traffic (GPM)"};
constexpr MetricFamily kNvlinkTx{"rung_device_nvlink_transmitted_bytes_total", kCounter,
                                 "Bytes sent over all NVLinks"};
constexpr MetricFamily kNvlinkRx{"rung_device_nvlink_received_bytes_total", kCounter,
                                 "Bytes received over all NVLinks"};

// --- the agent ---

constexpr MetricFamily kAgentInfo{"rung_agent_info", kGauge, "Which agent it is; always 1"};
constexpr MetricFamily kAgentStart{"rung_agent_start_time_seconds", kGauge,
                                   "Start of the agent, unix time"};
constexpr MetricFamily kTicks{"rung_agent_ticks_total", kCounter, "Looks at the node"};
constexpr MetricFamily kTicksLate{"rung_agent_ticks_late_total", kCounter, "Looks that came late"};
constexpr MetricFamily kTickTime{"rung_agent_last_tick_seconds", kGauge,
                                 "Host time of the last look's work"};
constexpr MetricFamily kAgentCpu{"rung_agent_cpu_seconds_total", kCounter, "CPU time of the agent"};
constexpr MetricFamily kAgentMemory{"rung_agent_resident_memory_bytes", kGauge,
                                    "Resident memory of the agent"};
constexpr MetricFamily kObservations{"rung_agent_observations_total", kCounter,
                                     "Observations taken"};
constexpr MetricFamily kRecordsLost{"rung_agent_records_lost_total", kCounter,
                                    "Ring records that did not fit"};
constexpr MetricFamily kProbeLinks{"rung_agent_probe_links", kGauge, "Probes attached"};
constexpr MetricFamily kProbeCost{"rung_agent_probe_cost_seconds", kGauge,
                                  "Calibrated cost of one launch probe hit"};
constexpr MetricFamily kProbeShare{
    "rung_agent_probe_cpu_ratio", kGauge,
    "Share of a rank's CPU that probes take, the highest over ranks"};
constexpr MetricFamily kThinned{"rung_agent_probes_thinned", kGauge,
                                "1 while launch probes are on for part of the time only"};
constexpr MetricFamily kHostRung{"rung_agent_host_rung_info", kGauge,
                                 "What the host rung does here; always 1"};
constexpr MetricFamily kShortLived{"rung_agent_short_lived_processes_total", kCounter,
                                   "Processes that came and went between two looks"};
constexpr MetricFamily kWorkerBlocked{"rung_worker_blocked", kGauge,
                                      "1 while a vendor call has not returned"};
constexpr MetricFamily kWorkerBlockedTime{"rung_worker_blocked_seconds", kGauge,
                                          "Age of the vendor call that has not returned"};
constexpr MetricFamily kWorkerRestarts{"rung_worker_restarts_total", kCounter,
                                       "Restarts of a vendor worker"};
constexpr MetricFamily kWorkerMemory{"rung_worker_resident_memory_bytes", kGauge,
                                     "Resident memory of a vendor worker"};
constexpr MetricFamily kOmitted{
    "rung_export_omitted", kGauge,
    "What has no series of its own: it is beyond the limits or was named twice"};

double seconds(std::chrono::nanoseconds d) { return static_cast<double>(ns_of(d)) / 1e9; }

std::optional<double> age(const Known<JobNs>& at, JobNs now) {
  const auto known = at.maybe();
  return known ? std::optional(seconds(std::max(now - *known, std::chrono::nanoseconds(0))))
               : std::nullopt;
}

std::optional<double> ratio(const std::optional<double>& percent) {
  return percent ? std::optional(*percent / 100) : std::nullopt;
}

std::optional<double> scaled(const std::optional<double>& value, double factor) {
  return value ? std::optional(*value * factor) : std::nullopt;
}

std::optional<double> rate(const Known<std::uint64_t>& bytes, std::chrono::nanoseconds window) {
  const auto known = bytes.maybe();
  if (!known || window.count() <= 0) return std::nullopt;
  return static_cast<double>(*known) / seconds(window);
}

const char* flag(bool truth) { return truth ? "true" : "false"; }

// The state as a closed list: exit codes and signal numbers stay out of labels.
std::string state_label(const RankView& rank) {
  if (rank.exit) return "gone";
  return view::state_of(rank).value_or("unknown");
}

void add_rank(MetricPage& page, const JobView& job, const RankView& rank) {
  const std::string& id = job.job.text;
  const std::string attempt = std::to_string(job.attempt);
  const std::string number = std::to_string(rank.rank.value);
  page.add(kRankInfo,
           {{"job", id},
            {"attempt", attempt},
            {"rank", number},
            {"host", rank.host},
            {"pid", std::to_string(rank.process.pid)},
            {"executable", rank.executable},
            {"device", rank.device ? rank.device->device.uuid : ""},
            {"simulated", flag(job.simulated)}},
           1.0);
  const auto add = [&](const MetricFamily& family, const std::optional<double>& value) {
    page.add(family, {{"job", id}, {"rank", number}}, value);
  };
  if (const std::string state = state_label(rank); state != "unknown") {
    page.add(kRankState, {{"job", id}, {"rank", number}, {"state", state}}, 1.0);
  }
  add(kLastCallAge, age(rank.last_call_at, job.now));
  add(kLastLaunchAge, age(rank.last_launch_at, job.now));
  add(kLastCollectiveAge, age(rank.last_collective_at, job.now));
  if (const auto progress = view::progress_of(job, rank.rank)) {
    add(kEntered, static_cast<double>(progress->entered));
  }
  add(kCpuCores, rank.activity.cpu_share.maybe());
  add(kCpuOutsideCuda, rank.activity.cpu_outside_cuda_share.maybe());
  add(kReadRate, rate(rank.activity.read_bytes, rank.activity.window));
  add(kWriteRate, rate(rank.activity.written_bytes, rank.activity.window));
  std::set<Rung> done;
  for (const RungCoverage& coverage : rank.coverage) {
    if (!done.insert(coverage.rung).second) continue;
    const char* rung = name_of(coverage.rung);
    page.add(kStage,
             {{"job", id}, {"rank", number}, {"rung", rung}, {"stage", name_of(coverage.stage)}},
             1.0);
    if (coverage.stage != Stage::kFlowing) continue;
    page.add(kCoverageLost, {{"job", id}, {"rank", number}, {"rung", rung}},
             static_cast<double>(coverage.lost));
  }
}

void add_verdicts(MetricPage& page, const JobView& job, const std::vector<Verdict>& verdicts) {
  struct Sum {
    std::size_t standing = 0;
    RankSet ranks;
    std::optional<JobNs> since;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Sum> sums;
  for (const Verdict* verdict : view::verdicts_of(job, verdicts)) {
    Sum& sum = sums[{verdict->kind, name_of(verdict->severity), name_of(verdict->confidence)}];
    ++sum.standing;
    sum.ranks |= verdict->ranks;
    if (verdict->since) sum.since = std::min(sum.since.value_or(*verdict->since), *verdict->since);
  }
  for (const auto& [key, sum] : sums) {
    const auto& [kind, severity, confidence] = key;
    const auto add = [&](const MetricFamily& family, double value) {
      page.add(family,
               {{"job", job.job.text},
                {"kind", kind},
                {"severity", severity},
                {"confidence", confidence}},
               value);
    };
    add(kVerdictActive, static_cast<double>(sum.standing));
    add(kVerdictRanks, static_cast<double>(sum.ranks.count()));
    if (sum.since) add(kVerdictSince, seconds(sum.since->time_since_epoch()));
  }
}

void add_job(MetricPage& page, const JobView& job, const std::vector<Verdict>& verdicts) {
  const std::string& id = job.job.text;
  page.add(kJobInfo,
           {{"job", id},
            {"attempt", std::to_string(job.attempt)},
            {"label", job.label},
            {"simulated", flag(job.simulated)}},
           1.0);
  page.add(kJobState, {{"job", id}, {"state", view::job_state(job, verdicts)}}, 1.0);
  page.add(kObserved, {{"job", id}}, static_cast<double>(job.ranks.size()));
  page.add(kWorldSize, {{"job", id}}, job.world_size.maybe());
  page.add(kProgressAge, {{"job", id}}, age(job.progress.last_at, job.now));
  page.add(kCollectiveRate, {{"job", id}}, job.progress.per_second.maybe());
  add_verdicts(page, job, verdicts);
}

// Counts what has no series of its own.
struct Omitted {
  std::size_t jobs = 0;
  std::size_t ranks = 0;
  std::size_t devices = 0;
  std::size_t workers = 0;
};

// Live jobs and newest attempts first: they get the room, and the series when an id comes twice.
std::vector<const JobView*> by_importance(const std::vector<JobView>& jobs) {
  std::vector<const JobView*> out;
  for (const JobView& job : jobs) out.push_back(&job);
  std::stable_sort(out.begin(), out.end(), [](const JobView* a, const JobView* b) {
    return a->ended != b->ended ? b->ended : a->attempt > b->attempt;
  });
  return out;
}

void add_jobs(MetricPage& page, const std::vector<const JobView*>& jobs,
              const std::vector<Verdict>& verdicts, Omitted& omitted) {
  std::size_t ranks_shown = 0;
  std::size_t ranks_of_other_jobs = 0;
  std::map<std::pair<std::string, std::string>, std::size_t> others;  // job, state
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobView& job = *jobs[i];
    const bool has_room = i < limits::kExportedJobs;
    if (has_room) {
      add_job(page, job, verdicts);
    } else {
      ++omitted.jobs;
      ranks_of_other_jobs += job.ranks.size();
    }
    for (const RankView& rank : job.ranks) {
      if (has_room && ranks_shown < limits::kExportedRanks) {
        ++ranks_shown;
        add_rank(page, job, rank);
      } else {
        ++omitted.ranks;
        ++others[{has_room ? job.job.text : kOther, state_label(rank)}];
      }
    }
  }
  if (omitted.jobs > 0) {
    page.add(kObserved, {{"job", kOther}}, static_cast<double>(ranks_of_other_jobs));
  }
  for (const auto& [key, count] : others) {
    page.add(kRankState, {{"job", key.first}, {"rank", kOther}, {"state", key.second}},
             static_cast<double>(count));
  }
}

void add_device(MetricPage& page, const DeviceSample& device) {
  const std::string& uuid = device.device.uuid;
  page.add(kDeviceInfo,
           {{"device", uuid},
            {"index", device.index < 0 ? "" : std::to_string(device.index)},
            {"model", device.name},
            {"simulated", flag(device.simulated)}},
           1.0);
  const auto add = [&](const MetricFamily& family, const auto& value) {
    page.add(family, {{"device", uuid}}, value);
  };
  constexpr double kKib = 1024;
  constexpr double kMega = 1e6;
  add(kUtilization, ratio(device.utilization_percent));
  add(kMemoryUsed, device.memory_used_bytes);
  add(kMemoryTotal, device.memory_total_bytes);
  add(kPower, device.power_watts);
  add(kSmClock, scaled(device.sm_clock_mhz, kMega));
  add(kMemoryClock, scaled(device.memory_clock_mhz, kMega));
  add(kTemperature, device.temperature_celsius);
  add(kSmActive, ratio(device.sm_active_percent));
  add(kSmOccupancy, ratio(device.sm_occupancy_percent));
  add(kTensorActive, ratio(device.tensor_active_percent));
  add(kDramActive, ratio(device.dram_active_percent));
  if (device.nvlink_tx_kib) add(kNvlinkTx, static_cast<double>(*device.nvlink_tx_kib) * kKib);
  if (device.nvlink_rx_kib) add(kNvlinkRx, static_cast<double>(*device.nvlink_rx_kib) * kKib);
}

void add_worker(MetricPage& page, const WorkerHealth& worker) {
  const auto add = [&](const MetricFamily& family, double value) {
    page.add(family, {{"device", worker.device}}, value);
  };
  add(kWorkerBlocked, worker.blocked ? 1 : 0);
  if (worker.blocked) add(kWorkerBlockedTime, worker.blocked_seconds);
  add(kWorkerRestarts, static_cast<double>(worker.restarts));
  add(kWorkerMemory, static_cast<double>(worker.resident_bytes));
}

void add_agent(MetricPage& page, const AgentHealth& agent, Omitted& omitted) {
  page.add(kAgentInfo, {{"version", agent.version}, {"host", agent.host}}, 1.0);
  if (!agent.host_rung.empty()) page.add(kHostRung, {{"state", agent.host_rung}}, 1.0);
  const auto add = [&](const MetricFamily& family, std::optional<double> value) {
    page.add(family, {}, value);
  };
  add(kAgentStart, seconds(agent.started.time_since_epoch()));
  add(kTicks, static_cast<double>(agent.ticks));
  add(kTicksLate, static_cast<double>(agent.ticks_late));
  add(kTickTime, scaled(agent.last_tick_ms, 1e-3));
  add(kAgentCpu, agent.cpu_seconds);
  add(kAgentMemory, static_cast<double>(agent.resident_bytes));
  add(kObservations, static_cast<double>(agent.observations));
  add(kRecordsLost, static_cast<double>(agent.records_lost));
  add(kProbeLinks, static_cast<double>(agent.probe_links));
  add(kProbeCost, scaled(agent.probe_cost_ns, 1e-9));
  add(kProbeShare, agent.probe_share);
  add(kThinned, agent.probes_thinned ? 1 : 0);
  add(kShortLived, static_cast<double>(agent.short_lived));
  const std::size_t shown = std::min(agent.workers.size(), limits::kExportedWorkers);
  for (std::size_t i = 0; i < shown; ++i) add_worker(page, agent.workers[i]);
  omitted.workers = agent.workers.size() - shown;
}

}  // namespace

std::string prometheus_text(const std::vector<JobView>& jobs, const std::vector<Verdict>& verdicts,
                            const AgentHealth& agent, const std::vector<DeviceSample>& devices) {
  MetricPage page;
  Omitted omitted;
  add_jobs(page, by_importance(jobs), verdicts, omitted);
  const std::size_t shown = std::min(devices.size(), limits::kExportedDevices);
  for (std::size_t i = 0; i < shown; ++i) add_device(page, devices[i]);
  omitted.devices = devices.size() - shown;
  add_agent(page, agent, omitted);
  const std::pair<const char*, std::size_t> counts[] = {{"job", omitted.jobs},
                                                        {"rank", omitted.ranks},
                                                        {"device", omitted.devices},
                                                        {"worker", omitted.workers},
                                                        {"duplicate", page.duplicates()}};
  for (const auto& [what, count] : counts) {
    page.add(kOmitted, {{"of", what}}, static_cast<double>(count));
  }
  return page.text();
}

}  // namespace rung
