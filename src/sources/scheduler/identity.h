// Who a process is: its job, rank and attempt.
//
// Identity is not taken on trust. The job comes from the control group that the scheduler made, or
// from the nearest common launcher of the same user; what a process says of itself in its
// environment names only its rank inside that job, or splits jobs that share a launcher. It never
// joins two processes that launcher or control group do not join.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/ids.h"
#include "model/observation.h"

namespace rung {

struct Ancestor {
  ProcessKey key;
  std::uint32_t uid = 0;
  std::string comm;
};

// A process that maps libcuda.
struct Candidate {
  ProcessKey key;
  std::uint32_t uid = 0;
  std::vector<Ancestor> ancestors;         // nearest first
  std::string cgroup;                      // text of /proc/PID/cgroup
  std::map<std::string, std::string> env;  // of identity_env_keys(), those that are set
  std::string exe;                         // path of the executable
  std::int32_t session = 0;                // session id, 0 when unknown
  // Address of the lowest mapping of libcuda, 0 when unknown. Equal in a process and in a child
  // that it forked without exec; a data-loader worker is told from a rank by it.
  std::uint64_t libcuda_address = 0;
};

// The variables that identity looks at.
const std::vector<std::string_view>& identity_env_keys();

// The job that a control group belongs to: "slurm:4242.0", "k8s:POD-UID", or nothing. Only groups
// at the place where the scheduler makes them count: a user may name own groups as he likes below
// user.slice. A Slurm v1 group must be of user `uid`. A container id alone is no job.
std::optional<std::string> job_of_cgroup(std::string_view cgroup, std::uint32_t uid);

// What a process says of its place in a job.
struct RankClaim {
  std::optional<std::int32_t> rank;
  std::optional<std::int32_t> world_size;
  std::optional<std::int32_t> local_rank;
  std::string source;   // "RANK", "OMPI_COMM_WORLD_RANK"...; "" without rank
  std::string problem;  // why a claimed rank cannot be right; then `rank` is absent
};
// SLURM_PROCID counts only with `in_slurm`: everyone who was started from a Slurm shell has it.
RankClaim rank_claim(const std::map<std::string, std::string>& env, bool in_slurm);

// Remembers who was what, so that a process keeps its job when its siblings end, a rank that was
// started again is a new attempt, and the holder of a rank cannot be displaced by a later claim.
class IdentityTable {
 public:
  // All candidates of this node at this moment. Gives one identity for each, in the same order;
  // `host`, `device`, `libraries` and `simulated` are left for the caller.
  std::vector<ProcessIdentity> update(const std::vector<Candidate>& candidates);

  // Jobs without a live process that were forgotten to stay within limits::kEndedJobs.
  std::uint64_t forgotten_jobs() const { return forgotten_jobs_; }

 private:
  struct RankHistory {
    ProcessKey holder;           // the newest believed process of this rank
    std::int32_t processes = 0;  // how many there were
  };
  struct Job {
    ProcessKey launcher;
    std::string split;  // what sets it apart from other jobs of this launcher
    std::map<std::int32_t, RankHistory> ranks;
    std::uint64_t last_seen = 0;  // number of the update that last had a member of it
  };
  struct Remembered {
    std::string job;
    std::optional<ProcessKey> helper_of;
  };
  struct Member;
  using Members = std::vector<Member>;
  using Taken = std::map<std::pair<std::string, std::int32_t>, ProcessKey>;

  void find_helpers(Members* members) const;
  void assign_jobs(Members* members);
  void place(Member* member, const Members& members);
  void remember(Members* members);
  void assign_ranks(Members* members);
  void judge_rank(Member* member, std::size_t job_members, Taken* taken);
  void forget_ended();

  std::map<ProcessKey, Remembered> processes_;
  std::map<std::string, Job> jobs_;
  std::uint64_t updates_ = 0;
  std::uint64_t forgotten_jobs_ = 0;
};

}  // namespace rung
