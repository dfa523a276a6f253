// `rung why`: verdicts with their evidence, for programs and for people.
#pragma once

#include <string>
#include <vector>

#include "export/text_options.h"
#include "model/job_view.h"
#include "model/verdict.h"

namespace rung {

// One JSON object of schema "rung.why/1" (docs/design.md, 8): jobs, verdicts, coverage, notes.
// Times are unix ns and RFC 3339 in UTC; what is unknown is null.
std::string why_json(const std::vector<JobView>& jobs, const std::vector<Verdict>& verdicts,
                     const std::vector<std::string>& notes);

// The same for a terminal: per job the verdicts in the order given, with evidence, limits and next
// steps, then the ranks in rows that stand for all ranks in the same situation.
std::string why_text(const std::vector<JobView>& jobs, const std::vector<Verdict>& verdicts,
                     const std::vector<std::string>& notes, const TextOptions& options);

}  // namespace rung
