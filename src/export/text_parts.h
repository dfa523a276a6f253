// Blocks of text that several views share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "export/text_options.h"
#include "export/wording.h"
#include "model/job_view.h"
#include "model/verdict.h"

namespace rung::view {

Colour colour_of(const Verdict& verdict);

// "=== HANG  rank 3 ===... established ===": the first line of a verdict.
std::string banner(const Verdict& verdict, const TextOptions& options);

// "job slurm:42.0 "llama", attempt 1": who it is; names made printable.
std::string job_phrase(const JobView& job);

// "7 of 8 ranks seen, not rank 3", "8 ranks seen, world size not known".
std::string seen_phrase(const JobView& job);

// The line that a simulated job must carry, "" for a real one.
std::string simulated_line(const JobView& job, const TextOptions& options);

// A titled list with one "- " entry for each text, at most limits::kListLines; "" when empty.
std::string titled_list(std::string_view title, const std::vector<std::string>& texts, int width);

}  // namespace rung::view
