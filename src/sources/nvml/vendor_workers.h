// VendorWorkers: the agent's side of NVML. One helper process per GPU, one outstanding call each;
// nothing here ever waits for one. The agent itself opens no /dev/nvidia* and loads no NVML.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/agent_health.h"
#include "model/observation.h"

namespace rung {

struct VendorWorkersConfig {
  std::string executable = "/proc/self/exe";      // run as EXECUTABLE vendor-worker ...
  std::string library;                            // NVML; "" for libnvidia-ml.so.1
  std::chrono::milliseconds deadline{5000};       // a call that takes longer is blocked
  std::chrono::milliseconds kill_after{30000};    // a call blocked for that long costs its worker
  std::chrono::milliseconds first_backoff{1000};  // before a restart; doubles up to last_backoff
  std::chrono::milliseconds last_backoff{60000};
};

class VendorWorkers {
 public:
  // Starts the worker that enumerates the devices; theirs follow in collect() once it answered.
  // Workers die with the thread that calls this and collect(). Errors: kUnavailable when no
  // process can be started.
  static Result<std::unique_ptr<VendorWorkers>> start(VendorWorkersConfig config);
  ~VendorWorkers();  // as stop()
  VendorWorkers(const VendorWorkers&) = delete;
  VendorWorkers& operator=(const VendorWorkers&) = delete;

  // Asks each worker that has no call outstanding for a sample. Does not block.
  void request_samples();

  // Takes the answers that have come, restarts workers and appends: DeviceSample per answer;
  // HealthEvent kVendorCallBlocked once for a call over its deadline and kVendorCallReturned when
  // that device answers again (value: seconds); CoverageChange of the fleet rung, without process,
  // when a device or NVML as a whole stops or starts to answer. Does not block.
  void collect(UnixNs now, std::vector<Observation>& out);

  // Readable when collect() has something to take. They change in collect().
  std::vector<int> fds() const;

  // One per worker, the enumerating one (device "all") while it runs.
  std::vector<WorkerHealth> health() const;

  // What is known of NVML as a whole: stage kRequested until the devices were enumerated, kFlowing
  // with devices, kDormant with kNoDevice (no library, no driver, no GPU), kVendorError or
  // kVendorCallBlocked.
  const RungCoverage& coverage() const;

  // Kills all workers and waits at most 100 ms for them to go; a worker that the driver holds
  // does not go.
  void stop();

 private:
  class Impl;
  explicit VendorWorkers(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rung
