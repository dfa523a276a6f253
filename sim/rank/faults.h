// The faults of one rank: when they begin, what they do to it, what they change in its work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "rung_sim/runner.h"

namespace rung::sim {

class RankFaults {
 public:
  RankFaults(const Scenario& scenario, std::int32_t rank, std::string folder, RankBoard& board);

  // Sleeps for the time of an init_missing fault of this rank, if there is one.
  void before_init();
  // Call at the begin of each step: decides which faults begin in it.
  void begin_step(std::int64_t step);
  // Call where the step's first collective is about to be issued: sleeps, stops, writes or dies.
  void at_collective();

  // Whether a fault of this kind begins in this step, and marks it as begun.
  bool begins(Fault::Kind kind);
  // Nanoseconds of a never-ending kernel: those of for_s, or 30 years.
  std::int64_t endless_ns() const;
  // Factor on kernel times now: 1 when there is no slow fault.
  double slowness();

 private:
  struct Planned {
    Fault fault;
    bool due = false;
    bool begun = false;
    std::int64_t begun_ns = 0;  // monotonic
  };
  void sleep_for(const Fault& fault);
  void write_checkpoint(const Fault& fault);
  void mark_begun(Planned& planned);
  void mark_recovered();

  std::vector<Planned> planned_;
  std::string folder_;
  RankBoard& board_;
  std::int64_t first_step_ns_ = 0;
};

}  // namespace rung::sim
