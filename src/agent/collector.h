// Collector: owns the sources and gathers one tick's observations from them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/config.h"
#include "agent/discovery.h"
#include "agent/suspicion.h"
#include "base/result.h"
#include "model/agent_health.h"
#include "model/job_view.h"
#include "model/observation.h"
#include "sources/host_probes/host_probes.h"
#include "sources/nvml/vendor_workers.h"
#include "sources/procfs/procfs.h"

namespace rung {

class Collector {
 public:
  // Opens what this host allows. A source that cannot be opened is no error: what it would have
  // seen is reported as refused coverage. `executable` is run for the canary and for workers.
  Collector(const AgentConfig& config, const std::string& executable);

  // Everything since the last tick, in the order in which it must be absorbed. `views` are those of
  // the last tick: they decide what is looked at more closely.
  std::vector<Observation> tick(UnixNs now, const std::vector<JobView>& views);

  // To be called when event_fd() is readable: takes records out before the ring overflows.
  void drain_early(UnixNs now);
  int event_fd() const;  // -1 without host probes

  // Between ticks: whether launch probes are on that may have to go off again soon, and the look at
  // them that decides it.
  bool governs_early() const;
  void govern_early(UnixNs now);

  // Own health, as far as the sources know it.
  void fill(AgentHealth& health) const;
  const std::string& host_rung() const { return host_rung_; }
  const std::vector<DeviceSample>& devices() const { return devices_; }

 private:
  void open_probes(const AgentConfig& config, const std::string& executable);
  void follow_processes(UnixNs now, std::vector<Observation>& out);
  void take_process_events(UnixNs now, std::vector<Observation>& out);
  void sample_processes(UnixNs now, const std::vector<JobView>& views,
                        std::vector<Observation>& out);
  void report_coverage(UnixNs now, std::vector<Observation>& out);
  std::string devices_detail() const;
  void collect_devices(UnixNs now, std::vector<Observation>& out);

  ProcFs procfs_;
  Discovery discovery_;
  std::unique_ptr<HostProbes> probes_;
  std::optional<Error> probes_error_;
  Reason probes_reason_ = Reason::kNone;
  std::string host_rung_;
  std::unique_ptr<VendorWorkers> workers_;
  std::string nvml_error_;
  Suspicion suspicion_;
  // A process that the probes follow, and when they look at its maps.
  struct Watching {
    UnixNs since{};
    UnixNs next_look{};
  };
  std::map<ProcessKey, Watching> watched_;
  std::map<std::pair<ProcessKey, Rung>, RungCoverage> reported_;
  std::uint64_t samples_ = 0;
  std::vector<Observation> early_;
  std::vector<DeviceSample> devices_;
};

}  // namespace rung
