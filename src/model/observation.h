// Observation: one piece of evidence as a plain value. Sources make them, recordings store them,
// job/ absorbs them. All counters are cumulative, so a missed tick loses nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/coverage.h"
#include "model/ids.h"
#include "model/known.h"
#include "model/time.h"
#include "vocab/calls.h"
#include "vocab/collectives.h"

namespace rung {

// Values are part of recordings: only ever append.
enum class Source : std::uint8_t {
  kProcfs,
  kScheduler,
  kHostProbes,
  kNvml,
  kCpuPlace,
  kAgent,
};
const char* name_of(Source source);  // "procfs", ...

struct Origin {
  Source source = Source::kAgent;
  Rung rung = Rung::kFleet;
  ProcessKey process;             // empty (pid 0) for what belongs to no process
  UnixNs at{};                    // when it was observed
  std::uint64_t lost_before = 0;  // records of this source lost since the last observation
};

enum class LibraryKind : std::uint8_t { kCuda, kCudart, kNccl, kCupti, kTorchCuda };
const char* name_of(LibraryKind kind);

struct LibraryFingerprint {
  LibraryKind kind = LibraryKind::kCuda;
  std::string path;
  std::string build_id;  // lower-case hex, "" when the file has none
  std::string version;   // "2.28.9", "" when not found
};

// Who a process is. Sent when it is found and again when something of it changes.
struct ProcessIdentity {
  JobId job;
  std::int32_t attempt = 0;
  std::optional<RankId> rank;              // from the environment, inside the job
  std::optional<std::int32_t> world_size;  // likewise
  std::optional<std::int32_t> local_rank;
  std::string host;
  std::uint32_t uid = 0;
  std::string executable;  // base name
  std::string label;       // what people call the job: launcher run id, Slurm name
  ProcessKey launcher;     // empty when there is none
  std::optional<DeviceId> device;
  std::vector<LibraryFingerprint> libraries;
  bool simulated = false;  // the libraries are the simulator's
  std::string conflict;    // "" or why its claim of a rank was not believed
};

enum class ProcessState : std::uint8_t {
  kRunning,    // R
  kSleeping,   // S, I
  kDiskSleep,  // D
  kStopped,    // T: a signal stopped it
  kTraced,     // t: a debugger stopped it
  kZombie,     // Z, X
};
const char* name_of(ProcessState state);

// One look at /proc/PID. Counters are cumulative since the process started.
struct ProcessSample {
  ProcessState state = ProcessState::kRunning;
  std::int32_t threads = 0;
  std::optional<std::int32_t> threads_disk_sleep;  // unknown when the threads were not looked at
  std::int64_t cpu_ns = 0;                         // user + system, all threads
  std::optional<std::uint64_t> read_bytes;     // from storage; unknown without the right to look
  std::optional<std::uint64_t> written_bytes;  // to storage
  std::optional<std::uint64_t> read_chars;     // through read calls of any kind
  std::optional<std::uint64_t> written_chars;
  std::uint64_t resident_bytes = 0;
  std::int32_t tracer_pid = 0;
  std::int32_t child_compilers = 0;  // children that are ptxas, cc1plus, nvcc, ld...
  std::string wait_channel;          // of the main thread, "" when running or unknown
};

struct ProcessExit {
  std::optional<std::int32_t> exit_code;  // when it exited by itself
  std::optional<std::int32_t> signal;     // when a signal ended it
};

// Calls entered since the probes were attached, by class. `bytes` for copy, set, alloc.
struct HostCallStats {
  struct Class {
    CallClass call = RUNG_CALL_OTHER;
    std::uint64_t entered = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Class> classes;     // only those entered at least once
  bool launches_thinned = false;  // the governor had launch probes off for part of the time
  // Since when every launch is seen without a break; unknown while launch probes are off.
  std::optional<UnixNs> launches_seen_since;
};

// The last probed call of a thread, and that it has made none since.
struct InFlightCall {
  std::int32_t tid = 0;
  CallClass call = RUNG_CALL_OTHER;
  std::string function;  // "cuStreamSynchronize"
  UnixNs entered{};
  std::uint64_t calls_so_far = 0;  // of this thread
  char thread_state = '?';         // as in /proc/PID/task/TID/stat; '?' when not read
};

// A communicator as one process sees it.
struct CommRef {
  std::uint64_t pointer = 0;  // in that process
  CommId id;
  std::optional<std::int32_t> size;  // members
  std::optional<std::int32_t> rank;  // this process's rank in it
};

// Something happened to a communicator.
struct CommEvent {
  enum class What : std::uint8_t { kInitEntered, kInitDone, kSplitEntered, kDestroyed, kAborted };
  What what = What::kInitEntered;
  CommRef comm;  // pointer is 0 while init has not returned
};
const char* name_of(CommEvent::What what);

// What one rank asked of one collective; equal on all ranks unless the program is wrong.
struct CollectiveSignature {
  CollectiveOp op = RUNG_OP_UNKNOWN;
  std::uint8_t datatype = 0;       // ncclDataType_t
  std::uint8_t reduction = 0;      // ncclRedOp_t, 0 where there is none
  std::int32_t root_or_peer = -1;  // root of rooted ones, peer of send and receive
  std::uint64_t count = 0;         // elements, as given to the call
  friend auto operator<=>(const CollectiveSignature&, const CollectiveSignature&) = default;
};

struct CollectiveEntry {
  UnixNs entered{};
  CollectiveSignature what;
};

// Collectives that one process entered on one communicator, in order, without gap inside.
struct CollectiveBatch {
  CommRef comm;
  // Absolute number of the first entry: how many collectives this communicator had been given
  // before. Unknown when it could not be read; then only order within this process is known.
  std::optional<std::uint64_t> first_index;
  bool captured = false;  // entered while a stream of this process was being captured into a graph
  std::vector<CollectiveEntry> entries;
};

// Point-to-point calls entered so far, by peer; cumulative since the communicator was seen.
struct PointToPointStats {
  CommRef comm;
  bool since_init = false;  // counted from the communicator's creation, so comparable across ranks
  struct Peer {
    std::int32_t peer = 0;
    std::uint64_t sends = 0;
    std::uint64_t receives = 0;
    UnixNs last{};
  };
  std::vector<Peer> peers;
};

// One NVML look at one device. Percent values are 0..100.
struct DeviceSample {
  DeviceId device;
  std::int32_t index = -1;
  std::string name;
  std::optional<double> utilization_percent;  // some kernel was resident; not efficiency
  std::optional<std::uint64_t> memory_used_bytes;
  std::optional<std::uint64_t> memory_total_bytes;
  std::optional<double> power_watts;
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> temperature_celsius;
  std::optional<std::uint64_t> clock_event_reasons;  // NVML bit mask
  std::optional<double> sm_active_percent;           // GPM 2
  std::optional<double> sm_occupancy_percent;        // GPM 3
  std::optional<double> tensor_active_percent;       // GPM 5
  std::optional<double> dram_active_percent;         // GPM 10
  std::optional<std::uint64_t> nvlink_tx_kib;        // cumulative, field 138 over all links
  std::optional<std::uint64_t> nvlink_rx_kib;        // cumulative, field 139
  std::vector<std::int32_t> compute_pids;            // in the host's pid namespace
  bool simulated = false;
};

struct CoverageChange {
  RungCoverage coverage;
};

// Something about the observer or the machine that a verdict may need.
struct HealthEvent {
  // Values are part of recordings: only ever append.
  enum class Kind : std::uint8_t {
    kVendorCallBlocked,  // value: seconds
    kVendorCallReturned,
    kRecordsLost,    // value: records lost since the last tick
    kProbesThinned,  // value: percent of the time that launch probes are on
    kProbesRestored,
    kTickLate,  // value: milliseconds
  };
  Kind kind = Kind::kRecordsLost;
  double value = 0;
  std::string what;  // device, map or call concerned
};
const char* name_of(HealthEvent::Kind kind);

// Where a process spent its CPU time while it was sampled on suspicion.
struct CpuPlace {
  std::uint32_t samples = 0;  // 0: it used no CPU in the window
  std::uint32_t in_cuda = 0;  // of them in libcuda, libcudart, libnccl or the vDSO
  std::chrono::nanoseconds window{};
};

using Evidence = std::variant<ProcessIdentity, ProcessSample, ProcessExit, HostCallStats,
                              InFlightCall, CommEvent, CollectiveBatch, PointToPointStats,
                              DeviceSample, CoverageChange, HealthEvent, CpuPlace>;

struct Observation {
  Origin from;
  Evidence what;
};

}  // namespace rung
