// The Prometheus page of the agent.
#pragma once

#include <string>
#include <vector>

#include "model/agent_health.h"
#include "model/job_view.h"
#include "model/observation.h"
#include "model/verdict.h"

namespace rung {

// Text exposition format 0.0.4. What is unknown has no series. At most
// limits::kSeriesPerRank series a rank; labels are job, rank, device, rung, stage and verdict kind,
// never names of functions or communicators; identity (host, pid, uuid, label) is in *_info series.
// Jobs, ranks and devices beyond limits in export/limits.h are summed under job="other" or counted
// in rung_series_omitted_total.
std::string prometheus_text(const std::vector<JobView>& jobs, const std::vector<Verdict>& verdicts,
                            const AgentHealth& agent, const std::vector<DeviceSample>& devices);

}  // namespace rung
