#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/strings.h"
#include "export/limits.h"
#include "export/rank_table.h"
#include "export/status.h"
#include "export/summary.h"
#include "export/text_parts.h"

namespace rung {
namespace {

using view::wrapped;

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string progress_text(const JobView& job) {
  const auto last = job.progress.last_at.maybe();
  if (!last) return "progress not known";
  std::string out = fmt::format("last moved {} ({})", view::when_text(*last, job.now),
                                name_of(job.progress.source));
  if (const auto rate = job.progress.per_second.maybe()) {
    out += fmt::format(", {:.1f} collectives/s", *rate);
  }
  return out;
}

std::string job_block(const JobView& job, const std::vector<Verdict>& verdicts,
                      const TextOptions& options) {
  const int width = view::columns_of(options);
  const std::vector<const Verdict*> standing = view::verdicts_of(job, verdicts);
  const view::Colour colour =
      standing.empty() ? view::Colour::kBold : view::colour_of(*standing.front());
  std::string out = view::painted(upper(view::job_state(job, verdicts)), colour, options) + "  " +
                    view::job_phrase(job) + "\n";
  out += view::simulated_line(job, options);
  out += wrapped("  ", view::seen_phrase(job) + "; " + progress_text(job), width);
  RankSet accused;
  for (const Verdict* verdict : standing) {
    out += wrapped(
        "  ",
        fmt::format("{} ({}): {}", verdict->kind, name_of(verdict->confidence), verdict->summary),
        width);
    if (verdict->severity != Severity::kInfo) accused |= verdict->ranks;
  }
  return out + view::rank_table(job, accused, options) + "\n";
}

std::string host_rung_text(const AgentHealth& agent) {
  std::string out = agent.host_rung.empty() ? "not known" : printable(agent.host_rung);
  out += fmt::format(", {} probe links", agent.probe_links);
  if (agent.probe_cost_ns) out += fmt::format(", {:.0f} ns a launch probe", *agent.probe_cost_ns);
  if (agent.probe_share) {
    out += fmt::format(", {:.3f} % of a rank's CPU at most", 100 * *agent.probe_share);
  }
  if (agent.probes_thinned) out += ", launch probes thinned";
  return out;
}

std::string workers_text(const AgentHealth& agent, int width) {
  std::string out;
  for (const WorkerHealth& worker : agent.workers) {
    if (!worker.blocked && worker.restarts == 0) continue;
    out += wrapped("  vendor worker ",
                   fmt::format("{} (pid {}): {}, {} restarts", printable(worker.device), worker.pid,
                               worker.blocked ? fmt::format("call blocked for {:.0f} s",
                                                            worker.blocked_seconds)
                                              : std::string("answers"),
                               worker.restarts),
                   width);
  }
  return out;
}

std::string agent_block(const AgentHealth& agent, const TextOptions& options) {
  const int width = view::columns_of(options);
  std::string out =
      fmt::format("agent {} on {} (pid {})\n", agent.version, printable(agent.host), agent.pid);
  out += wrapped(
      "  ",
      fmt::format(
          "{} ticks, {} late{}; {:.1f} s CPU, {:.0f} MiB; {} observations", agent.ticks,
          agent.ticks_late,
          agent.last_tick_ms ? fmt::format(", the last took {:.1f} ms", *agent.last_tick_ms) : "",
          agent.cpu_seconds, static_cast<double>(agent.resident_bytes) / (1 << 20),
          agent.observations),
      width);
  out += wrapped("  ",
                 fmt::format("{} records lost, {} short-lived processes not followed",
                             agent.records_lost, agent.short_lived),
                 width);
  out += wrapped("  host rung: ", host_rung_text(agent), width);
  return out + workers_text(agent, width);
}

}  // namespace

std::string status_text(const std::vector<JobView>& jobs, const std::vector<Verdict>& verdicts,
                        const AgentHealth& agent, const TextOptions& options) {
  std::string out;
  if (jobs.empty()) out += "no job that uses CUDA is running here\n\n";
  for (const JobView& job : jobs) out += job_block(job, verdicts, options);
  return out + agent_block(agent, options);
}

}  // namespace rung
