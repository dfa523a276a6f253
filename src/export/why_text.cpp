#include <fmt/format.h>

#include <algorithm>

#include "export/rank_table.h"
#include "export/summary.h"
#include "export/text_parts.h"
#include "export/why.h"

namespace rung {
namespace {

using view::Colour;
using view::wrapped;

std::string fact_text(const Fact& fact) {
  std::string out = fact.rank ? fmt::format("rank {}: ", fact.rank->value) : "";
  out += fact.fact;
  std::string from = fact.source;
  if (fact.duration_kind) from += fmt::format(", {}", name_of(*fact.duration_kind));
  // A sentence usually says its number; the value beside the source is the exact one.
  if (fact.value) {
    from += fmt::format(": {:.6g}{}{}", *fact.value, fact.unit.empty() ? "" : " ", fact.unit);
  }
  return out + " [" + from + "]";
}

std::string verdict_text(const Verdict& verdict, const JobView* job, const TextOptions& options) {
  const int width = view::columns_of(options);
  const std::optional<JobNs> now = job != nullptr ? std::optional(job->now) : std::nullopt;
  std::string out = view::banner(verdict, options);
  if (job != nullptr) out += view::simulated_line(*job, options);
  out += view::painted(wrapped("", verdict.summary, width), Colour::kBold, options);
  out += wrapped("  verdict     ",
                 fmt::format("{}, {}, {}", verdict.kind, name_of(verdict.severity),
                             name_of(verdict.confidence)),
                 width);
  out += wrapped(
      "  job         ",
      job != nullptr ? view::job_phrase(*job) + "; " + view::seen_phrase(*job) : verdict.job.text,
      width);
  out += wrapped("  since       ",
                 verdict.since ? view::when_text(*verdict.since, now) : "not known", width);
  out += wrapped("  detected    ", view::when_text(verdict.detected, now), width);
  if (!verdict.waiting.empty()) {
    out += wrapped("  waiting     ", view::ranks_phrase(verdict.waiting), width);
  }
  if (!verdict.unobserved.empty()) {
    out += wrapped("  not seen    ", view::ranks_phrase(verdict.unobserved), width);
  }
  std::vector<std::string> facts;
  for (const Fact& fact : verdict.evidence) facts.push_back(fact_text(fact));
  out += view::titled_list("evidence", facts, width);
  out += view::titled_list("not established", verdict.not_established, width);
  out += view::titled_list("next", verdict.next, width);
  return out + "\n";
}

std::string ranks_block(const JobView& job, const std::vector<const Verdict*>& standing,
                        const TextOptions& options) {
  RankSet accused;
  for (const Verdict* verdict : standing) {
    if (verdict->severity != Severity::kInfo || family_of(verdict->kind) == "stall") {
      accused |= verdict->ranks;
    }
  }
  std::string out = fmt::format("ranks of {} at {}\n", view::job_phrase(job),
                                view::clock_text(job.now, std::nullopt));
  out += view::rank_table(job, accused, options);
  const std::string gaps = view::coverage_gaps(job, view::columns_of(options));
  if (!gaps.empty()) out += "coverage\n" + gaps;
  return out + "\n";
}

const JobView* job_of(const Verdict& verdict, const std::vector<JobView>& jobs) {
  const auto found = std::find_if(jobs.begin(), jobs.end(), [&](const JobView& job) {
    return job.job == verdict.job && job.attempt == verdict.attempt;
  });
  return found != jobs.end() ? &*found : nullptr;
}

}  // namespace

std::string why_text(const std::vector<JobView>& jobs, const std::vector<Verdict>& verdicts,
                     const std::vector<std::string>& notes, const TextOptions& options) {
  std::string out;
  for (const Verdict& verdict : verdicts) {
    if (job_of(verdict, jobs) == nullptr) out += verdict_text(verdict, nullptr, options);
  }
  for (const JobView& job : jobs) {
    const std::vector<const Verdict*> standing = view::verdicts_of(job, verdicts);
    for (const Verdict* verdict : standing) out += verdict_text(*verdict, &job, options);
    if (standing.empty()) {
      out += view::simulated_line(job, options);
      out += wrapped("", "no verdict on " + view::job_phrase(job) + "; " + view::seen_phrase(job),
                     view::columns_of(options));
    }
    out += ranks_block(job, standing, options);
  }
  for (const std::string& note : notes) {
    out += wrapped("note: ", note, view::columns_of(options));
  }
  return out;
}

}  // namespace rung
