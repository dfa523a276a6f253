// JobView: everything that a rule may see of one job at one moment. Plain values; building it is
// the work of job/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/coverage.h"
#include "model/ids.h"
#include "model/known.h"
#include "model/observation.h"
#include "model/rank_set.h"
#include "model/time.h"

namespace rung {

// How much of the job the observer could see at all.
enum class Scope : std::uint8_t { kNode, kHub, kFiles };

// What a process did in the last `window`.
struct Activity {
  std::chrono::nanoseconds window{};
  Known<double> cpu_share;               // 1.0 = one core busy for the whole window
  Known<double> cpu_outside_cuda_share;  // of one core; known only where CPU places were sampled
  Known<std::uint64_t> read_bytes;       // storage or any read call, whichever is larger
  Known<std::uint64_t> written_bytes;
  std::int32_t child_compilers = 0;
  std::int32_t threads_disk_sleep = 0;
};

struct ThreadCall {
  std::int32_t tid = 0;
  CallClass call = RUNG_CALL_OTHER;
  std::string function;
  JobNs entered{};
  char thread_state = '?';
};

struct ExitView {
  std::optional<std::int32_t> exit_code;
  std::optional<std::int32_t> signal;
  JobNs at{};
};

struct RankView {
  RankId rank;
  ProcessKey process;
  std::string host;
  std::string executable;
  JobNs first_seen{};
  Known<ProcessState> state;
  JobNs state_since{};
  std::int32_t tracer_pid = 0;
  std::string wait_channel;
  std::optional<ExitView> exit;     // set once it is gone
  std::vector<ThreadCall> threads;  // newest call first
  Known<JobNs> last_call_at;        // any probed call of any thread
  Known<JobNs> last_launch_at;      // kernel or graph launch (tick resolution)
  Known<JobNs> last_collective_at;
  bool host_probes_flowing = false;  // at least one probed call was seen
  Known<JobNs> probes_since;         // when the host probes began to see this process
  // Launch probes were off for part of the time, and since its last call no look has shown that it
  // launches nothing either.
  bool launches_thinned = false;
  bool unidentified_comms = false;  // has a communicator in use that could not be identified
  Activity activity;
  std::optional<DeviceSample> device;  // newest sample of its device
  std::vector<RungCoverage> coverage;
};

// One collective as it lies in a member's tail.
struct TailEntry {
  std::uint64_t index = 0;
  JobNs entered{};
  CollectiveSignature what;
};

struct PeerTraffic {
  std::int32_t peer = 0;  // rank in the communicator
  std::uint64_t sends = 0;
  std::uint64_t receives = 0;
  JobNs last{};
};

// One observed process in one communicator.
struct MemberView {
  RankId rank;                   // in the job
  std::int32_t comm_rank = -1;   // in the communicator
  Known<std::uint64_t> entered;  // collectives entered so far, absolute; null: not comparable
  JobNs last_entered_at{};
  std::vector<TailEntry> tail;     // the newest, ascending by index; may be empty
  std::vector<PeerTraffic> peers;  // empty when none was seen
  bool peers_comparable = false;   // counted since the communicator was made
  bool captured = false;           // some were captured into graphs: counts say little
  bool initializing = false;       // inside init, not yet returned
  JobNs init_entered_at{};
  bool closed = false;  // destroyed or aborted
};

struct CommView {
  CommId id;
  std::int32_t size = 0;            // members in all, observed or not
  std::vector<MemberView> members;  // observed ones, ascending by comm_rank
  // Of a communicator that spans the job, comm ranks are job ranks; elsewhere members that are not
  // observed are known by number only.
  bool comm_ranks_are_job_ranks = false;
};

// What moved last in the job as a whole.
struct JobProgress {
  enum class Source : std::uint8_t { kNone, kCollectives, kLaunches, kGraphs };
  Source source = Source::kNone;
  Known<JobNs> last_at;  // newest moment at which any rank moved
  Known<std::uint64_t>
      index;  // collectives entered by the slowest observed rank of the largest communicator
  Known<double> per_second;  // collectives a second over the last 10 s
};
const char* name_of(JobProgress::Source source);

struct Baseline {
  // Gaps between two movements of the whole job: 99.9 % lie below this; null before 20 were seen.
  Known<std::chrono::nanoseconds> gap_p999;
  std::uint64_t gaps = 0;
};

struct ObserverFact {
  HealthEvent::Kind kind{};
  double value = 0;
  std::string what;
  JobNs at{};
  bool ongoing = false;
};

struct JobView {
  JobId job;
  std::int32_t attempt = 0;
  std::string label;
  Scope scope = Scope::kNode;
  bool simulated = false;
  JobNs now{};
  Known<std::int32_t> world_size;
  std::vector<RankView> ranks;      // observed, ascending by rank; includes those that are gone
  std::vector<CommView> comms;      // with at least one open, identified, observed member
  bool unidentified_comms = false;  // some process has communicators that could not be identified
  JobProgress progress;
  Baseline baseline;
  std::vector<ObserverFact> observer;
  bool ended = false;  // every observed rank is gone

  const RankView* find(RankId rank) const;
  RankSet observed() const;    // all ranks in `ranks`
  RankSet unobserved() const;  // of 0..world_size-1 those not in `ranks`
};

}  // namespace rung
