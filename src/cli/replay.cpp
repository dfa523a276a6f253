// replay: a recording through the same judgement.
#include <fmt/format.h>

#include "agent/replayer.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "cli/commands.h"
#include "export/text_options.h"
#include "export/why.h"

namespace rung::cli {
namespace {

void print_text(const std::string& file, const ReplayOutcome& outcome) {
  fmt::print("{}: {} ticks, {} observations{}{}\n", file, outcome.ticks, outcome.observations,
             outcome.meta.simulated ? ", simulated" : "",
             outcome.dropped > 0 ? fmt::format(", {} dropped when written", outcome.dropped) : "");
  for (const VerdictChange& change : outcome.changes) {
    const std::string ranks = change.verdict.ranks.text();
    fmt::print("{}  {} {}{}  {}\n", rfc3339(ns_of(change.at)), change.stands ? "+" : "-",
               change.verdict.kind, ranks.empty() ? "" : " [" + ranks + "]",
               change.stands ? change.verdict.summary : "");
  }
  if (outcome.differing_ticks == 0) {
    fmt::print("live and replayed verdicts are the same in every tick\n\n");
  } else {
    fmt::print("live and replayed verdicts differ in {} of {} ticks:\n", outcome.differing_ticks,
               outcome.ticks);
    for (const std::string& difference : outcome.differences) fmt::print("  {}\n", difference);
    fmt::print("\n");
  }
  TextOptions options;
  options.colour = want_colour();
  options.width = terminal_width();
  fmt::print("At the end:\n{}", why_text(outcome.views, outcome.standing, {}, options));
}

void write_verdict(JsonWriter& json, const Verdict& verdict) {
  json.field("kind", verdict.kind).field("job", verdict.job.text);
  json.key("ranks").begin_array();
  for (const RankId rank : verdict.ranks.ranks()) json.value(rank.value);
  json.end_array();
  json.field("severity", name_of(verdict.severity));
  json.field("confidence", name_of(verdict.confidence));
  json.field("summary", verdict.summary);
}

void print_json(const std::string& file, const ReplayOutcome& outcome) {
  JsonWriter json;
  json.begin_object().field("schema", "rung.replay/1").field("file", file);
  json.field("simulated", outcome.meta.simulated).field("ticks", outcome.ticks);
  json.field("observations", outcome.observations).field("dropped", outcome.dropped);
  json.field("differing_ticks", outcome.differing_ticks);
  json.key("changes").begin_array();
  for (const VerdictChange& change : outcome.changes) {
    json.begin_object()
        .field("at_unix_ns", ns_of(change.at))
        .field("at", rfc3339(ns_of(change.at)));
    json.field("stands", change.stands);
    write_verdict(json, change.verdict);
    json.end_object();
  }
  json.end_array().key("verdicts").begin_array();
  for (const Verdict& verdict : outcome.ever) {
    json.begin_object();
    write_verdict(json, verdict);
    json.end_object();
  }
  json.end_array().key("differences").begin_array();
  for (const std::string& difference : outcome.differences) json.value(difference);
  json.end_array().end_object();
  fmt::print("{}\n", json.text());
}

}  // namespace

int replay(const ReplayOptions& options) {
  const Result<ReplayOutcome> outcome = replay_recording(options.file);
  if (!outcome) return complain("replay", outcome.error());
  if (options.json) {
    print_json(options.file, *outcome);
  } else {
    print_text(options.file, *outcome);
  }
  if (options.check) return outcome->differing_ticks == 0 ? 0 : 1;
  return why_exit_code(outcome->ever, options.fail_on);
}

}  // namespace rung::cli
