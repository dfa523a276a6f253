// HostProbes::Impl: what the parts of the implementation share. Watching, draining and governing
// are in files of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/limits.h"
#include "sources/host_probes/comm_tracker.h"
#include "sources/host_probes/function_table.h"
#include "sources/host_probes/host_probes.h"
#include "sources/host_probes/library_scan.h"
#include "sources/host_probes/probe_programs.h"
#include "sources/host_probes/probed_file.h"

namespace rung {

static_assert(limits::kRanksPerNode == RUNG_PROBE_SLOTS);

inline constexpr std::uint32_t kCanaryLink = 1;  // link ids of library files come after it
inline constexpr std::uint64_t kExecHintsPerTick = 256;

// A tracker that reads the communicators of process `pid`.
CommTracker tracker_of(int pid, std::span<const rung_comm_layout> layouts);

struct Watched {
  Watched(const ProcessKey& process, int process_id, std::span<const rung_comm_layout> layouts)
      : key(process), pid(process_id), tracker(tracker_of(process_id, layouts)) {}

  ProcessKey key;
  int pid = 0;
  rung_process entry{};
  CommTracker tracker;
  std::set<std::pair<std::string, std::uint64_t>> seen_libraries;  // device and inode, as in maps
  std::vector<std::uint32_t> files;                                // link ids
  Reason problem = Reason::kNone;  // the first that was met while attaching
  std::string problem_detail;
  bool refused = false;  // nothing at all could be attached because of it
  UnixNs since{};        // of the present stage
  UnixNs watched_since{};
  rung_counters counted{};
  bool flowing = false;
  bool exited = false;
  bool thinned_ever = false;
  std::uint64_t lost = 0;
  std::uint64_t lost_before = 0;  // not yet told with an observation
  std::uint64_t peer_calls = 0;   // counter at the last drain
  std::uint64_t launches_measured = 0;
  std::uint64_t others_measured = 0;
  std::optional<UnixNs> measured_at;
  std::optional<UnixNs> moved_at;  // last govern() that found new calls
  bool silent = false;
  bool fell_silent = false;  // silent since this govern()
};

// Calls of every class together.
std::uint64_t all_calls(const rung_counters& counters);
// What an error means for coverage.
Reason reason_of(const Error& error);

class HostProbes::Impl {
 public:
  Impl(const HostProbesConfig& config, std::unique_ptr<ProbePrograms> programs, bool multi);

  CanaryResult& run_the_canary();
  Result<void> watch(const ProcessKey& key, int pid);
  void unwatch(const ProcessKey& key);
  void drain(UnixNs now, std::vector<Observation>& out);
  void govern(UnixNs now, std::vector<Observation>& out);
  RungCoverage coverage(const Watched& process) const;
  bool governs_early() const;
  ProbeTotals totals() const;

  std::unique_ptr<ProbePrograms> programs_;
  std::map<ProcessKey, std::unique_ptr<Watched>> processes_;
  std::vector<ProcessEvent> process_events_;
  CanaryResult canary_;

 private:
  Result<Watched*> admit(const ProcessKey& key, int pid);
  Result<void> rescan(Watched& process);
  Result<void> attach_library(Watched& process, const ProbeLibrary& library);
  Result<Fd> open_library(const Watched& process, const ProbeLibrary& library) const;
  Result<void> use_file(Watched& process, ProbedFile& file);
  void blame(Watched& process, Reason reason, std::string detail);
  ProbedFile* file_by_id(std::uint32_t link_id);
  const ProbedFile* file_by_id(std::uint32_t link_id) const;

  Watched* watched_by(const rung_event& head) const;
  void on_event(const rung_event& head, std::span<const std::byte> all);
  void on_process_event(const rung_process_event& event);
  void forget_program(Watched& process);
  void report(Watched& process, UnixNs now, std::int64_t mono_now, std::vector<Observation>& out);
  void report_losses(Watched& process, UnixNs now, std::vector<Observation>& out);
  void report_counts(Watched& process, UnixNs now, std::vector<Observation>& out);
  void report_threads(UnixNs now, std::int64_t mono_now, std::vector<Observation>& out);
  void report_peers(UnixNs now, std::vector<Observation>& out);
  std::optional<UnixNs> launches_seen_since(const Watched& process) const;
  bool hidden_by_thinning(const Watched& process, UnixNs entered) const;
  Origin origin(Watched& process, UnixNs at);

  std::pair<double, double> shares(Watched& process, UnixNs now);
  void govern_file(ProbedFile& file, UnixNs now, std::vector<Observation>& out);
  void tell_users(const ProbedFile& file, HealthEvent event, UnixNs now,
                  std::vector<Observation>& out);

  HostProbesConfig config_;
  std::string root_;
  bool multi_;
  bool long_nops_;
  std::vector<rung_comm_layout> layouts_ = layout_table();
  std::deque<std::uint32_t> free_slots_;
  std::vector<Watched*> by_slot_;
  std::uint32_t last_generation_ = 0;
  std::uint32_t last_link_ = kCanaryLink;
  std::list<ProbedFile> files_;
  std::map<ProcessKey, std::pair<double, double>> last_shares_;
  std::int64_t unix_minus_mono_ = 0;
  double highest_share_ = 0;
  std::uint64_t threads_over_bound_ = 0;
  std::uint64_t process_events_lost_ = 0;    // nobody took them
  std::uint64_t comms_over_bound_gone_ = 0;  // of processes that are no longer watched
  std::chrono::nanoseconds last_attach_{};
  std::chrono::nanoseconds last_detach_{};
};

}  // namespace rung
