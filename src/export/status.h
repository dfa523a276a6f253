// `rung status`: jobs, ranks, coverage and the agent itself.
#pragma once

#include <string>
#include <vector>

#include "export/text_options.h"
#include "model/agent_health.h"
#include "model/job_view.h"
#include "model/verdict.h"

namespace rung {

// One JSON object of schema "rung.status/1" (docs/design.md, 8): jobs with one entry per rank,
// agent.
std::string status_json(const std::vector<JobView>& jobs, const std::vector<Verdict>& verdicts,
                        const AgentHealth& agent);

// The same for a terminal: one block per job with its ranks grouped, then the agent.
std::string status_text(const std::vector<JobView>& jobs, const std::vector<Verdict>& verdicts,
                        const AgentHealth& agent, const TextOptions& options);

}  // namespace rung
