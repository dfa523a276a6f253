// Builds JobViews for tests: a job whose ranks are seen, quiet and waiting in a sync, to be changed
// by each case. Times are seconds; the job's `now` is 1000 unless told otherwise.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "model/job_view.h"
#include "model/verdict.h"

namespace rung::testing {

inline JobNs at(double seconds) { return job_ns(static_cast<std::int64_t>(seconds * 1e9)); }

inline CollectiveSignature all_reduce(std::uint64_t count, std::uint8_t datatype = 7) {
  return {RUNG_OP_ALL_REDUCE, datatype, 0, -1, count};
}

class ViewBuilder {
 public:
  explicit ViewBuilder(int world, double now = 1000) {
    view_.job = JobId{"slurm:4242.0"};
    view_.world_size = world;
    view_.now = at(now);
    for (int rank = 0; rank < world; ++rank) view_.ranks.push_back(quiet_rank(rank, now));
  }

  // Seen by probes since long ago, in a sync since `last`, spinning in CUDA, moving no data.
  static RankView quiet_rank(int rank, double last) {
    RankView out;
    out.rank = RankId{rank};
    out.process = ProcessKey{1, 100 + rank, 5};
    out.host = "node0";
    out.executable = "python";
    out.first_seen = at(10);
    out.state = ProcessState::kRunning;
    out.state_since = at(10);
    out.host_probes_flowing = true;
    out.probes_since = at(10);
    out.activity.window = std::chrono::seconds(10);
    out.activity.cpu_share = 0.98;
    out.activity.cpu_outside_cuda_share = 0.01;
    out.activity.read_bytes = std::uint64_t{0};
    out.activity.written_bytes = std::uint64_t{0};
    RungCoverage host;
    host.rung = Rung::kHost;
    host.stage = Stage::kFlowing;
    out.coverage.push_back(host);
    moved(out, last);
    return out;
  }

  // Its last launch was at `last`, and it has been in a sync since.
  static void moved(RankView& rank, double last) {
    rank.last_launch_at = at(last);
    rank.last_call_at = at(last);
    rank.threads = {{rank.process.pid, RUNG_CALL_SYNC, "cuStreamSynchronize", at(last), 'R'}};
  }

  RankView& rank(int rank) {
    return *std::find_if(view_.ranks.begin(), view_.ranks.end(),
                         [&](const RankView& r) { return r.rank.value == rank; });
  }

  void all_moved(double last) {
    for (RankView& rank : view_.ranks) moved(rank, last);
  }

  void gpus_busy() {
    for (RankView& rank : view_.ranks) {
      rank.device.emplace();
      rank.device->utilization_percent = 100;
    }
  }

  // A communicator of these job ranks, in order; all have entered `entered` collectives, the last
  // of them at `last`.
  std::size_t comm(std::uint64_t hash, const std::vector<int>& ranks, std::uint64_t entered,
                   double last) {
    CommView comm;
    comm.id = CommId{hash, CommId::Source::kMemory};
    comm.size = static_cast<std::int32_t>(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      MemberView member;
      member.rank = RankId{ranks[i]};
      member.comm_rank = static_cast<std::int32_t>(i);
      member.peers_comparable = true;
      comm.members.push_back(member);
    }
    bool same = comm.size == view_.world_size.maybe().value_or(-1);
    for (const MemberView& m : comm.members) same = same && m.rank.value == m.comm_rank;
    comm.comm_ranks_are_job_ranks = same;
    view_.comms.push_back(comm);
    const std::size_t number = view_.comms.size() - 1;
    for (const int rank : ranks) enter(number, rank, entered, last);
    return number;
  }

  std::size_t world_comm(std::uint64_t entered, double last) {
    std::vector<int> ranks;
    for (const RankView& rank : view_.ranks) ranks.push_back(rank.rank.value);
    return comm(0xabc, ranks, entered, last);
  }

  MemberView& member(std::size_t comm, int rank) {
    auto& members = view_.comms[comm].members;
    return *std::find_if(members.begin(), members.end(),
                         [&](const MemberView& m) { return m.rank.value == rank; });
  }

  // This member has entered `entered` collectives, the newest at `last`, one every 0.1 s.
  void enter(std::size_t comm, int rank, std::uint64_t entered, double last,
             CollectiveSignature what = all_reduce(262144)) {
    MemberView& m = member(comm, rank);
    m.entered = entered;
    m.tail.clear();
    const std::uint64_t first = entered > 8 ? entered - 8 : 0;
    for (std::uint64_t index = first; index < entered; ++index) {
      const double ago = 0.1 * static_cast<double>(entered - 1 - index);
      m.tail.push_back({index, at(last - ago), what});
    }
    if (entered > 0) m.last_entered_at = at(last);
  }

  // The rank is not observed at all: gone from the ranks and from every communicator.
  void forget(int rank) {
    std::erase_if(view_.ranks, [&](const RankView& r) { return r.rank.value == rank; });
    for (CommView& comm : view_.comms) {
      std::erase_if(comm.members, [&](const MemberView& m) { return m.rank.value == rank; });
    }
    std::erase_if(view_.comms, [](const CommView& comm) { return comm.members.empty(); });
  }

  void exits(int rank, double when, std::optional<int> code, std::optional<int> signal = {}) {
    this->rank(rank).exit = ExitView{code, signal, at(when)};
    view_.ended = std::all_of(view_.ranks.begin(), view_.ranks.end(),
                              [](const RankView& r) { return r.exit.has_value(); });
  }

  void observer(HealthEvent::Kind kind, double value, double when, bool ongoing = true) {
    view_.observer.push_back({kind, value, "collectives ring", at(when), ongoing});
  }

  JobView& view() { return view_; }

 private:
  JobView view_;
};

inline std::vector<std::string> kinds(const std::vector<Verdict>& verdicts) {
  std::vector<std::string> out;
  for (const Verdict& verdict : verdicts) out.push_back(verdict.kind);
  return out;
}

}  // namespace rung::testing
