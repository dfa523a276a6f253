// Jobs that the tests of views render.
#pragma once

#include <string>
#include <vector>

#include "model/agent_health.h"
#include "model/job_view.h"
#include "model/verdict.h"

namespace rung::testing {

inline constexpr std::int64_t kNowNs = 1'796'219'014'000'000'000;  // 2026-12-02T13:43:34Z

inline JobNs ago(double seconds) {
  return job_ns(kNowNs - static_cast<std::int64_t>(seconds * 1e9));
}

inline DeviceSample device_of(std::int32_t index, double busy) {
  DeviceSample device;
  device.device.uuid = "GPU-0000-" + std::to_string(index);
  device.index = index;
  device.name = "NVIDIA H200";
  device.utilization_percent = busy;
  device.memory_used_bytes = 34'359'738'368;
  device.power_watts = 412.5;
  device.sm_clock_mhz = 1980;
  return device;
}

inline RungCoverage coverage_of(Rung rung, Stage stage, Reason reason = Reason::kNone) {
  return {rung, stage, reason, "", unix_ns(kNowNs - 60'000'000'000), 0};
}

inline RankView rank_of(std::int32_t number, const std::string& function, double age) {
  RankView rank;
  rank.rank = RankId{number};
  rank.process = {1, 4000 + number, 77};
  rank.host = "node-7";
  rank.executable = "python3";
  rank.state = ProcessState::kRunning;
  rank.threads.push_back({4000 + number, RUNG_CALL_SYNC, function, ago(age), 'R'});
  rank.last_call_at = ago(age);
  rank.last_collective_at = ago(age);
  rank.host_probes_flowing = true;
  rank.activity.window = std::chrono::seconds(10);
  rank.activity.cpu_share = 1.0;
  rank.device = device_of(number, 99);
  rank.coverage = {coverage_of(Rung::kFleet, Stage::kFlowing),
                   coverage_of(Rung::kHost, Stage::kFlowing)};
  return rank;
}

// A job of `size` ranks in which `culprit` stopped before collective 1234 that the others entered.
inline JobView hung_job(std::int32_t size, std::int32_t culprit) {
  JobView job;
  job.job.text = "slurm:4242.0";
  job.label = "llama-70b";
  job.now = job_ns(kNowNs);
  job.world_size = size;
  CommView comm;
  comm.id = {0x9250b9ac1b69107aULL, CommId::Source::kMemory};
  comm.size = size;
  for (std::int32_t i = 0; i < size; ++i) {
    const bool guilty = i == culprit;
    job.ranks.push_back(rank_of(i, guilty ? "cuLaunchKernel" : "cuStreamSynchronize",
                                guilty ? 12.6 : 12.0 + 0.001 * i));
    if (guilty) {
      job.ranks.back().state = ProcessState::kStopped;
      job.ranks.back().device->utilization_percent = 0;
    }
    MemberView member;
    member.rank = RankId{i};
    member.comm_rank = i;
    member.entered = static_cast<std::uint64_t>(guilty ? 1233 : 1234);
    comm.members.push_back(member);
  }
  job.comms.push_back(comm);
  job.progress.source = JobProgress::Source::kCollectives;
  job.progress.last_at = ago(12);
  job.progress.index = 1233U;
  return job;
}

inline Verdict hang_verdict(const JobView& job, std::int32_t culprit) {
  Verdict verdict;
  verdict.kind = std::string(kind::kHangRankNotJoined);
  verdict.severity = Severity::kError;
  verdict.job = job.job;
  verdict.attempt = job.attempt;
  verdict.ranks = {culprit};
  verdict.waiting = job.observed() - verdict.ranks;
  verdict.since = ago(12);
  verdict.detected = ago(7);
  verdict.confidence = Confidence::kEstablished;
  verdict.summary = "rank " + std::to_string(culprit) +
                    " has not entered AllReduce of 262144 float32 (1 MiB) on communicator "
                    "0x9250b9ac1b69107a, index 1233; all others wait in it";
  verdict.evidence = {
      {"procfs", Rung::kFleet, EvidenceClass::kKernelHost, RankId{culprit}, std::nullopt,
       "the process is stopped by a signal", std::nullopt, ""},
      {"host_probes", Rung::kHost, EvidenceClass::kKernelHost, RankId{culprit},
       DurationKind::kHostCall, "its last call was cuLaunchKernel, entered 12.6 s ago", 12.6, "s"},
      {"host_probes", Rung::kHost, EvidenceClass::kPeers, std::nullopt, std::nullopt,
       "the other ranks entered the collective and wait", 7.0, "ranks"},
  };
  verdict.not_established = {"who sent the signal"};
  verdict.next = {"look at rank " + std::to_string(culprit) + ": kill -CONT continues it",
                  "see who stopped it: a debugger, a job manager, a person"};
  return verdict;
}

inline AgentHealth some_agent() {
  AgentHealth agent;
  agent.version = "0.1.0";
  agent.host = "node-7";
  agent.pid = 812;
  agent.started = unix_ns(kNowNs - 3600'000'000'000);
  agent.ticks = 3600;
  agent.ticks_late = 2;
  agent.last_tick_ms = 14.25;
  agent.cpu_seconds = 31.5;
  agent.resident_bytes = 48U << 20;
  agent.observations = 120000;
  agent.records_lost = 5;
  agent.probe_links = 40;
  agent.probe_cost_ns = 590;
  agent.host_rung = "flowing";
  agent.short_lived = 3;
  agent.workers = {{"GPU-0000-0", 900, true, 45.0, 1, 12U << 20}};
  return agent;
}

}  // namespace rung::testing
