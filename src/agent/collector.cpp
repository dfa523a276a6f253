#include "agent/collector.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "model/limits.h"

namespace rung {
namespace {

// A framework has mapped CUDA and NCCL, and opened lazily what it opens lazily, within this.
constexpr std::chrono::seconds kLoadsLibrariesFor{15};
constexpr std::chrono::milliseconds kLookOften{500};  // less than a tick: at each one
constexpr std::chrono::milliseconds kLookRarely{9500};
// Threads are looked at in each tick once a job has not moved for this long, and else in every
// kThreadsEvery-th.
constexpr std::chrono::seconds kLookCloserAfter{2};
constexpr std::uint64_t kThreadsEvery = 10;

Observation about(const ProcessKey& process, UnixNs now, Source source, Rung rung, Evidence what) {
  return {Origin{source, rung, process, now, 0}, std::move(what)};
}

bool same(const RungCoverage& a, const RungCoverage& b) {
  return a.stage == b.stage && a.reason == b.reason && a.detail == b.detail && a.lost == b.lost;
}

HostProbesConfig probes_config(const AgentConfig& config, const std::string& executable) {
  HostProbesConfig out;
  out.proc_root = config.proc_root;
  out.canary_executable = executable;
  for (const AcceptedNccl& accepted : config.accepted_nccl) {
    out.accepted.push_back({accepted.build_id, accepted.layout});
  }
  out.budget_share = config.host_budget_percent / 100;
  out.ring_bytes = std::size_t{config.host_ring_kib} << 10;
  return out;
}

}  // namespace

Collector::Collector(const AgentConfig& config, const std::string& executable)
    : procfs_(config.proc_root), discovery_(procfs_) {
  open_probes(config, executable);
  if (!config.nvml_enabled) return;
  VendorWorkersConfig workers;
  workers.executable = executable;
  workers.library = config.nvml_library;
  workers.deadline =
      std::chrono::milliseconds(static_cast<std::int64_t>(config.nvml_deadline_s * 1e3));
  auto started = VendorWorkers::start(workers);
  if (started) {
    workers_ = std::move(*started);
  } else {
    nvml_error_ = started.error().message;
  }
}

void Collector::open_probes(const AgentConfig& config, const std::string& executable) {
  if (!config.host_enabled) {
    host_rung_ = "not_requested: off in the config";
    return;
  }
  auto opened = HostProbes::open(probes_config(config, executable), &probes_reason_);
  if (opened) {
    probes_ = std::move(*opened);
    host_rung_ = "attached";
    return;
  }
  probes_error_ = opened.error();
  host_rung_ = std::string("refused: ") + name_of(probes_reason_) + ": " + opened.error().message;
  if (!opened.error().hint.empty()) host_rung_ += " (hint: " + opened.error().hint + ")";
}

int Collector::event_fd() const { return probes_ ? probes_->event_fd() : -1; }

void Collector::drain_early(UnixNs now) {
  if (probes_) probes_->drain(now, early_);
}

bool Collector::governs_early() const { return probes_ && probes_->governs_early(); }

void Collector::govern_early(UnixNs now) {
  if (!probes_) return;
  probes_->drain(now, early_);
  probes_->govern(now, early_);
}

std::vector<Observation> Collector::tick(UnixNs now, const std::vector<JobView>& views) {
  std::vector<Observation> out = std::move(early_);
  early_.clear();
  // Records first: once a process that has gone is no longer watched, its last ones are lost.
  if (probes_) {
    probes_->drain(now, out);
    probes_->govern(now, out);
    take_process_events(now, out);
  }
  follow_processes(now, out);
  sample_processes(now, views, out);
  report_coverage(now, out);
  collect_devices(now, out);
  suspicion_.tick(now, views, procfs_, out);
  return out;
}

void Collector::follow_processes(UnixNs now, std::vector<Observation>& out) {
  discovery_.scan(now, out);
  if (!probes_) return;
  for (auto entry = watched_.begin(); entry != watched_.end();) {
    const bool gone = !discovery_.processes().contains(entry->first);
    if (gone) probes_->unwatch(entry->first);
    entry = gone ? watched_.erase(entry) : std::next(entry);
  }
  for (const auto& [process, found] : discovery_.processes()) {
    // Reading the maps of a large interpreter costs a millisecond: often while it still loads its
    // libraries, rarely later.
    Watching& watching = watched_.try_emplace(process, Watching{now, now}).first->second;
    if (now < watching.next_look) continue;
    const bool loading = now - watching.since < kLoadsLibrariesFor;
    watching.next_look = now + (loading ? kLookOften : kLookRarely);
    // A failure shows as this process's coverage; one that went meanwhile leaves the next scan.
    static_cast<void>(probes_->watch(process, process.pid));
  }
}

void Collector::take_process_events(UnixNs now, std::vector<Observation>& out) {
  const std::int64_t unix_minus_mono = unix_now_ns() - mono_now_ns();
  for (const ProcessEvent& event : probes_->take_process_events()) {
    if (event.what == ProcessEvent::What::kExec) {
      discovery_.hint(event.pid);
      continue;
    }
    const auto found = std::find_if(watched_.begin(), watched_.end(), [&](const auto& entry) {
      return entry.first.pid == event.pid;
    });
    const UnixNs at = std::min(now, unix_ns(event.mono_ns + unix_minus_mono));
    if (found == watched_.end()) continue;
    out.push_back(about(found->first, at, Source::kScheduler, Rung::kFleet,
                        ProcessExit{event.exit_code, event.signal}));
  }
}

void Collector::sample_processes(UnixNs now, const std::vector<JobView>& views,
                                 std::vector<Observation>& out) {
  ++samples_;
  std::set<ProcessKey> moving;
  for (const JobView& view : views) {
    const bool moves =
        view.progress.last_at.match([&](JobNs last) { return view.now - last < kLookCloserAfter; },
                                    [](Unknown) { return false; });
    for (const RankView& rank : view.ranks) {
      if (moves) moving.insert(rank.process);
    }
  }
  for (const auto& [process, found] : discovery_.processes()) {
    const bool turn = (samples_ + static_cast<std::uint64_t>(process.pid)) % kThreadsEvery == 0;
    const auto depth = turn || !moving.contains(process) ? ProcFs::Depth::kWithThreads
                                                         : ProcFs::Depth::kProcessOnly;
    const Result<ProcessSample> sample = procfs_.sample(process, discovery_.tree(), depth);
    if (sample) out.push_back(about(process, now, Source::kProcfs, Rung::kFleet, *sample));
  }
}

void Collector::report_coverage(UnixNs now, std::vector<Observation>& out) {
  std::erase_if(reported_, [&](const auto& entry) {
    return !discovery_.processes().contains(entry.first.first);
  });
  for (const auto& [process, found] : discovery_.processes()) {
    std::vector<RungCoverage> rows;
    rows.push_back({Rung::kFleet, Stage::kFlowing, Reason::kNone, devices_detail(), now, 0});
    if (probes_) {
      for (RungCoverage& row : probes_->coverage(process, now)) rows.push_back(std::move(row));
    } else if (probes_error_) {
      rows.push_back(
          {Rung::kHost, Stage::kRefused, probes_reason_, probes_error_->message, now, 0});
    } else {
      rows.push_back(
          {Rung::kHost, Stage::kNotRequested, Reason::kNone, "off in the config", now, 0});
    }
    for (RungCoverage& row : rows) {
      RungCoverage& before = reported_[{process, row.rung}];
      const bool fresh = before.since == UnixNs{};
      if (!fresh && same(before, row)) continue;
      before = row;
      out.push_back(about(process, now, Source::kAgent, row.rung, CoverageChange{row}));
    }
  }
}

std::string Collector::devices_detail() const {
  if (!nvml_error_.empty()) return "processes only; " + nvml_error_;
  if (!workers_) return "processes only; NVML is off in the config";
  const RungCoverage& devices = workers_->coverage();
  if (devices.stage == Stage::kFlowing) return "";
  return "processes only; NVML " + std::string(name_of(devices.stage)) +
         (devices.detail.empty() ? "" : ": " + devices.detail);
}

void Collector::collect_devices(UnixNs now, std::vector<Observation>& out) {
  if (!workers_) return;
  const std::size_t begin = out.size();
  workers_->collect(now, out);
  workers_->request_samples();
  for (std::size_t i = begin; i < out.size(); ++i) {
    const auto* sample = std::get_if<DeviceSample>(&out[i].what);
    if (sample == nullptr) continue;
    const auto known =
        std::find_if(devices_.begin(), devices_.end(),
                     [&](const DeviceSample& device) { return device.device == sample->device; });
    if (known != devices_.end()) {
      *known = *sample;
    } else if (devices_.size() < limits::kDevices) {
      devices_.push_back(*sample);
    }
  }
}

void Collector::fill(AgentHealth& health) const {
  health.host_rung = host_rung_;
  if (workers_) health.workers = workers_->health();
  if (!probes_) return;
  const ProbeTotals totals = probes_->totals();
  health.records_lost = totals.ring_lost;
  health.probe_links = totals.links;
  health.short_lived = totals.short_lived;
  health.probes_thinned = totals.thinned;
  if (totals.cost_ns > 0) health.probe_cost_ns = totals.cost_ns;
  if (totals.processes > 0) health.probe_share = totals.highest_share;
}

}  // namespace rung
