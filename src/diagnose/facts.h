// Makers of facts, so that source, rung and class always agree.
#pragma once

#include <optional>
#include <string>

#include "model/job_view.h"
#include "model/verdict.h"
#include "timeline/wait_graph.h"

namespace rung {

// From /proc: the kernel's word on a process.
Fact procfs_fact(const RankView& rank, std::string text, std::optional<double> value = {},
                 std::string unit = "");
// From host probes: a call that this rank made, or made none of since.
Fact probe_fact(const RankView& rank, std::string text, std::optional<double> value = {},
                std::string unit = "");
// What other ranks show by waiting.
Fact peers_fact(std::string text, std::optional<double> value = {}, std::string unit = "");
// From the agent, about itself.
Fact observer_fact(std::string text, std::optional<double> value = {}, std::string unit = "");

// Last call of a rank and its age.
Fact last_call_fact(const JobView& view, const RankView& rank);
// Process state, and the wait channel where it sleeps; nothing when the state is unknown.
std::optional<Fact> state_fact(const RankView& rank);
// That its device is busy; nothing when it is not, or not known.
std::optional<Fact> busy_device_fact(const RankView& rank);
// How far a rank is behind in a communicator's collectives; class nccl_memory where the count was
// read from NCCL's memory, kernel_host where calls were counted.
std::optional<Fact> count_fact(const JobView& view, const WaitPoint& point, RankId rank);

}  // namespace rung
