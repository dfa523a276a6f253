// A model of a job with tensor, pipeline and data parallelism: each rank runs a program of
// collectives and point-to-point calls; one of them stops somewhere, and the others go on until
// each waits. Hosts may run ahead of their device. Gives the counts that an observer would see.
#pragma once

#include <map>
#include <random>
#include <vector>

#include "view_builder.h"

namespace rung::testing {

struct Layout {
  int tensor = 2;
  int pipeline = 4;
  int data = 4;
  int world() const { return tensor * pipeline * data; }
  int rank(int t, int p, int d) const { return t + tensor * (p + pipeline * d); }
};

class ParallelJob {
 public:
  struct Op {
    enum class Kind { kCollective, kSend, kReceive } kind;
    int comm;
    int peer;  // job rank
  };

  ParallelJob(Layout layout, int steps, int microbatches) : layout_(layout) {
    make_comms();
    programs_.resize(static_cast<std::size_t>(layout.world()));
    for (int step = 0; step < steps; ++step) add_step(microbatches);
  }

  std::size_t length(int rank) const { return programs_[index(rank)].size(); }

  // Runs until nobody can go on; `culprit` stops before its operation `stop`. A host may be up to
  // `run_ahead` operations ahead of what has completed.
  void run(int culprit, std::size_t stop, std::size_t run_ahead) {
    const std::size_t world = programs_.size();
    entered_.assign(world, 0);
    completed_.assign(world, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < world; ++rank) {
        moved = enter(rank, static_cast<int>(rank) == culprit ? stop : programs_[rank].size(),
                      run_ahead) ||
                moved;
        while (completed_[rank] < entered_[rank] && can_complete(rank)) {
          ++completed_[rank];
          moved = true;
        }
      }
    }
  }

  bool finished() const {
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      if (completed_[rank] < programs_[rank].size()) return false;
    }
    return true;
  }

  // The view of an observer that sees all ranks; everything stands still since `last`.
  ViewBuilder view(double now, double last) const {
    ViewBuilder builder(layout_.world(), now);
    builder.all_moved(last);
    for (std::size_t comm = 0; comm < comms_.size(); ++comm) {
      builder.comm(0x1000 + comm, comms_[comm], 0, last);
    }
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) fill(builder, rank, last);
    return builder;
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  int add_comm(std::vector<int> ranks) {
    comms_.push_back(std::move(ranks));
    return static_cast<int>(comms_.size()) - 1;
  }

  void make_comms() {
    const Layout& l = layout_;
    for (int d = 0; d < l.data; ++d) {
      for (int p = 0; p < l.pipeline; ++p) {
        std::vector<int> ranks;
        for (int t = 0; t < l.tensor; ++t) ranks.push_back(l.rank(t, p, d));
        tensor_[{p, d}] = add_comm(ranks);
      }
      for (int t = 0; t < l.tensor; ++t) {
        std::vector<int> ranks;
        for (int p = 0; p < l.pipeline; ++p) ranks.push_back(l.rank(t, p, d));
        pipeline_[{t, d}] = add_comm(ranks);
      }
    }
    for (int p = 0; p < l.pipeline; ++p) {
      for (int t = 0; t < l.tensor; ++t) {
        std::vector<int> ranks;
        for (int d = 0; d < l.data; ++d) ranks.push_back(l.rank(t, p, d));
        data_[{t, p}] = add_comm(ranks);
      }
    }
  }

  void add_step(int microbatches) {
    const Layout& l = layout_;
    for (int d = 0; d < l.data; ++d) {
      for (int p = 0; p < l.pipeline; ++p) {
        for (int t = 0; t < l.tensor; ++t) {
          auto& program = programs_[index(l.rank(t, p, d))];
          const int line = pipeline_[{t, d}];
          const int before = p > 0 ? l.rank(t, p - 1, d) : -1;
          const int after = p + 1 < l.pipeline ? l.rank(t, p + 1, d) : -1;
          for (int pass = 0; pass < 2; ++pass) {
            const int from = pass == 0 ? before : after;
            const int to = pass == 0 ? after : before;
            for (int micro = 0; micro < microbatches; ++micro) {
              if (from >= 0) program.push_back({Op::Kind::kReceive, line, from});
              program.push_back({Op::Kind::kCollective, tensor_[{p, d}], -1});
              program.push_back({Op::Kind::kCollective, tensor_[{p, d}], -1});
              if (to >= 0) program.push_back({Op::Kind::kSend, line, to});
            }
          }
          program.push_back({Op::Kind::kCollective, data_[{t, p}], -1});
        }
      }
    }
  }

  bool enter(std::size_t rank, std::size_t end, std::size_t run_ahead) {
    bool moved = false;
    while (entered_[rank] < end && entered_[rank] <= completed_[rank] + run_ahead) {
      ++entered_[rank];
      moved = true;
    }
    return moved;
  }

  // How many operations like `op` (seen from `rank`) lie in the first `upto` of its program.
  std::size_t count(std::size_t rank, std::size_t upto, Op::Kind kind, int comm, int peer) const {
    std::size_t out = 0;
    for (std::size_t i = 0; i < upto; ++i) {
      const Op& op = programs_[rank][i];
      if (op.kind == kind && op.comm == comm && op.peer == peer) ++out;
    }
    return out;
  }

  bool can_complete(std::size_t rank) const {
    const Op& op = programs_[rank][completed_[rank]];
    const std::size_t number = count(rank, completed_[rank] + 1, op.kind, op.comm, op.peer);
    if (op.kind != Op::Kind::kCollective) {
      const auto other = op.kind == Op::Kind::kSend ? Op::Kind::kReceive : Op::Kind::kSend;
      const std::size_t peer = index(op.peer);
      return count(peer, entered_[peer], other, op.comm, static_cast<int>(rank)) >= number;
    }
    for (const int member : comms_[index(op.comm)]) {
      if (count(index(member), entered_[index(member)], op.kind, op.comm, -1) < number) {
        return false;
      }
    }
    return true;
  }

  void fill(ViewBuilder& builder, std::size_t rank, double last) const {
    const int id = static_cast<int>(rank);
    for (std::size_t comm = 0; comm < comms_.size(); ++comm) {
      const std::vector<int>& members = comms_[comm];
      if (std::find(members.begin(), members.end(), id) == members.end()) continue;
      const int number = static_cast<int>(comm);
      const std::size_t entered = count(rank, entered_[rank], Op::Kind::kCollective, number, -1);
      builder.enter(comm, id, entered, last);
      for (std::size_t peer = 0; peer < members.size(); ++peer) {
        PeerTraffic traffic;
        traffic.peer = static_cast<std::int32_t>(peer);
        traffic.sends = count(rank, entered_[rank], Op::Kind::kSend, number, members[peer]);
        traffic.receives = count(rank, entered_[rank], Op::Kind::kReceive, number, members[peer]);
        traffic.last = at(last);
        if (traffic.sends + traffic.receives == 0) continue;
        builder.member(comm, id).peers.push_back(traffic);
        builder.member(comm, id).last_entered_at = at(last);
      }
    }
  }

  Layout layout_;
  std::vector<std::vector<int>> comms_;
  std::map<std::pair<int, int>, int> tensor_;
  std::map<std::pair<int, int>, int> pipeline_;
  std::map<std::pair<int, int>, int> data_;
  std::vector<std::vector<Op>> programs_;
  std::vector<std::size_t> entered_;
  std::vector<std::size_t> completed_;
};

}  // namespace rung::testing
