#include "export/json_parts.h"

#include <string>

#include "base/clock.h"

namespace rung::view {
namespace {

std::optional<std::string> none_if_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

void write_texts(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

void write_fact(JsonWriter& json, const Fact& fact) {
  json.begin_object().field("source", fact.source).field("rung", rung::name_of(fact.rung));
  json.field("class", rung::name_of(fact.evidence));
  json.key("rank");
  fact.rank ? json.value(fact.rank->value) : json.null();
  json.key("duration_kind");
  fact.duration_kind ? json.value(rung::name_of(*fact.duration_kind)) : json.null();
  json.field("fact", fact.fact).field("value", fact.value);
  json.field("unit", fact.value ? none_if_empty(fact.unit) : std::nullopt);
  json.end_object();
}

}  // namespace

void write_time(JsonWriter& json, std::string_view name, std::optional<std::int64_t> unix_ns) {
  json.field(std::string(name) + "_unix_ns", unix_ns).key(name);
  unix_ns ? json.value(rfc3339(*unix_ns)) : json.null();
}

void write_ranks(JsonWriter& json, std::string_view name, const RankSet& ranks) {
  json.key(name).begin_object();
  json.field("set", ranks.text()).field("count", ranks.count()).end_object();
}

void write_job_identity(JsonWriter& json, const JobView& job) {
  json.field("job", job.job.text).field("attempt", job.attempt);
  json.field("label", none_if_empty(job.label)).field("scope", name_of(job.scope));
  json.field("simulated", job.simulated);
}

void write_verdict(JsonWriter& json, const Verdict& verdict) {
  json.begin_object().field("kind", verdict.kind);
  json.field("severity", rung::name_of(verdict.severity));
  json.field("job", verdict.job.text).field("attempt", verdict.attempt);
  json.key("ranks").begin_array();
  for (const RankId rank : verdict.ranks.ranks()) json.value(rank.value);
  json.end_array();
  write_ranks(json, "waiting", verdict.waiting);
  write_ranks(json, "unobserved", verdict.unobserved);
  write_time(json, "since", verdict.since ? std::optional(ns_of(*verdict.since)) : std::nullopt);
  write_time(json, "detected", ns_of(verdict.detected));
  json.field("confidence", rung::name_of(verdict.confidence)).field("summary", verdict.summary);
  json.key("evidence").begin_array();
  for (const Fact& fact : verdict.evidence) write_fact(json, fact);
  json.end_array();
  write_texts(json, "not_established", verdict.not_established);
  write_texts(json, "next", verdict.next);
  json.end_object();
}

void write_coverage(JsonWriter& json, const RungCoverage& coverage) {
  const bool has_reason = coverage.reason != Reason::kNone;
  json.field("rung", rung::name_of(coverage.rung)).field("stage", rung::name_of(coverage.stage));
  json.key("reason");
  has_reason ? json.value(rung::name_of(coverage.reason)) : json.null();
  json.field("detail", none_if_empty(coverage.detail));
  const bool has_since = coverage.since != UnixNs{};
  write_time(json, "since", has_since ? std::optional(ns_of(coverage.since)) : std::nullopt);
  json.field("lost", coverage.lost);
  // How many of our calls are stuck is known for vendor workers only, and not per rank.
  json.key("blocked_by").null();
}

std::optional<std::int64_t> maybe_ns(const Known<JobNs>& at) {
  const auto known = at.maybe();
  return known ? std::optional(ns_of(*known)) : std::nullopt;
}

const char* name_of(Scope scope) {
  switch (scope) {
    case Scope::kNode:
      return "node";
    case Scope::kHub:
      return "hub";
    case Scope::kFiles:
      return "files";
  }
  return "node";
}

}  // namespace rung::view
