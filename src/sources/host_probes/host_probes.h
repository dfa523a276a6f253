// Host probes: eBPF entry probes on libcuda and libnccl of running processes. They count calls and
// bytes, know the last call of each thread, and number collectives per communicator. Nothing is
// injected and nothing is written into the process.
//
// Single-threaded: one thread opens it and drives it, once a tick: watch() for each process of
// interest, drain(), govern(). No function blocks on a workload; attaching and detaching take some
// ten milliseconds.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/coverage.h"
#include "model/ids.h"
#include "model/observation.h"
#include "model/time.h"
#include "sources/host_probes/ability.h"
#include "sources/host_probes/canary.h"

namespace rung {

struct AcceptedNcclBuild {
  std::string build_id;  // lower-case hex of the GNU build-id
  std::string layout;    // a release of abi/nccl_layout.h: "2.28.9"
};

struct HostProbesConfig {
  std::string proc_root = "/";  // where /proc lies
  // A program that hands `canary MODE N` to canary_main(); normally the rung binary itself. It must
  // be given: every probe type has to survive on it before it touches a workload.
  std::string canary_executable;
  std::vector<AcceptedNcclBuild> accepted;  // besides the built-in ones
  double budget_share = 0.005;              // of one CPU, per process, for the launch probes
  std::size_t ring_bytes = 4u << 20;        // a power of two times the page size
  bool allow_perf_fallback = true;          // on kernels without multi-uprobe links
  bool force_perf_fallback = false;         // as if the kernel had none
};

struct ProcessEvent {
  enum class What : std::uint8_t { kExec, kExit };
  What what = What::kExec;
  std::int32_t pid = 0;
  bool watched = false;                   // exec events of other processes are hints
  std::optional<std::int32_t> exit_code;  // when it exited by itself
  std::optional<std::int32_t> signal;     // when a signal ended it
  std::int64_t mono_ns = 0;               // CLOCK_MONOTONIC
};

// Cumulative since open(), except where said.
struct ProbeTotals {
  std::size_t processes = 0;          // watched now
  std::size_t files = 0;              // library files with probes now
  std::size_t links = 0;              // BPF links held now
  std::size_t functions = 0;          // probed now, over all files
  std::uint64_t hits_unwatched = 0;   // of processes that share a library file but have no slot
  std::uint64_t hits_other_link = 0;  // of a watched process, through a file that is not its own
  std::uint64_t threads_full = 0;     // hits whose thread found no room in the table
  std::uint64_t peers_full = 0;       // point-to-point calls that found no room
  std::uint64_t groups_full = 0;      // collectives without index: too many communicators a group
  std::uint64_t ring_lost = 0;        // events that found the ring full
  std::uint64_t process_events_lost = 0;  // exec hints over the bound of a tick, and not taken
  std::uint64_t unreadable = 0;           // arguments in memory that could not be read
  std::uint64_t comms_over_bound = 0;     // events on communicators beyond limits::kCommsPerRank
  std::uint64_t threads_over_bound = 0;   // threads not reported, beyond limits::kThreadsPerRank
  std::uint64_t short_lived = 0;          // processes that came and went between two drains
  double cost_ns = 0;                     // calibrated on this host, of one hit
  double highest_share = 0;               // of one CPU, over processes, at the last govern()
  bool thinned = false;                   // launch probes of some file are not always on
  std::chrono::nanoseconds last_attach{};
  std::chrono::nanoseconds last_detach{};
  bool multi_links = false;
};

class HostProbes {
 public:
  // Loads the programs, runs the canary in each mode and calibrates. On failure `why`, if given,
  // receives the reason for coverage.
  // Errors: kUsage (no canary, a layout that does not exist), kNoPermission, kUnavailable.
  static Result<std::unique_ptr<HostProbes>> open(const HostProbesConfig& config,
                                                  Reason* why = nullptr);
  ~HostProbes();
  HostProbes(const HostProbes&) = delete;
  HostProbes& operator=(const HostProbes&) = delete;

  // Looks at what process `pid` has mapped and attaches what is new; the first call gives it a
  // slot. Call it again to notice libraries loaded since. `key` must be the process that `pid`
  // names now. A process without the libraries is no error: coverage() says so.
  // Errors: kNotFound (gone, or another process has its pid), kNoPermission, kUnavailable (no slot
  // left, attach failed).
  Result<void> watch(const ProcessKey& key, int pid);

  // Forgets a process. Probes of files that nobody needs are removed a few seconds later.
  void unwatch(const ProcessKey& key);

  // Readable when the event ring is more than half full: drain soon.
  int event_fd() const;

  // Everything since the last drain: collectives, point-to-point counts that changed, communicator
  // events (Origin.at is when they happened), call counts, each thread's last call, and losses.
  void drain(UnixNs now, std::vector<Observation>& out);

  // Exits of watched processes and exec hints since the last call, as seen by drain().
  std::vector<ProcessEvent> take_process_events();

  // One row: the host rung of this process.
  std::vector<RungCoverage> coverage(const ProcessKey& key, UnixNs now) const;

  // After a drain, at each tick and some 250 ms after a tick that attached launch probes (see
  // governs_early). Keeps the launch probes within the budget: measures each process, takes launch
  // probes off and on again, closes links that nobody needs. Says what it did as HealthEvent per
  // process.
  void govern(UnixNs now, std::vector<Observation>& out);

  // Launch probes were attached since the last govern(), or are on only for a look.
  bool governs_early() const;

  ProbeTotals totals() const;
  const CanaryResult& canary() const;

 private:
  class Impl;
  explicit HostProbes(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rung
