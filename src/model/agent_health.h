// What the agent knows of itself: shown by status, exported to Prometheus.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/time.h"

namespace rung {

struct WorkerHealth {
  std::string device;  // index or UUID
  std::int32_t pid = 0;
  bool blocked = false;
  double blocked_seconds = 0;  // of the call that is outstanding, 0 when none is
  std::uint64_t restarts = 0;
  std::uint64_t resident_bytes = 0;
};

struct AgentHealth {
  std::string version;
  std::string host;
  std::int32_t pid = 0;
  UnixNs started{};
  std::uint64_t ticks = 0;
  std::uint64_t ticks_late = 0;
  std::optional<double> last_tick_ms;  // host time of the last tick's work
  double cpu_seconds = 0;              // of the agent since its start
  std::uint64_t resident_bytes = 0;
  std::uint64_t observations = 0;
  std::uint64_t records_lost = 0;  // ring records that did not fit
  std::uint64_t probe_links = 0;
  std::optional<double> probe_cost_ns;  // calibrated cost of one launch probe hit
  std::optional<double> probe_share;    // of a rank's CPU, the highest over ranks
  bool probes_thinned = false;
  std::string host_rung;          // "flowing" or why not
  std::uint64_t short_lived = 0;  // processes that came and went between two ticks
  std::vector<WorkerHealth> workers;
};

}  // namespace rung
