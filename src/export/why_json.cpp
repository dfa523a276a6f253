#include "export/json_parts.h"
#include "export/summary.h"
#include "export/why.h"

namespace rung {
namespace {

void write_job(JsonWriter& json, const JobView& job, const std::vector<Verdict>& verdicts) {
  json.begin_object();
  view::write_job_identity(json, job);
  json.field("state", view::job_state(job, verdicts));
  json.field("world_size", job.world_size.maybe());
  view::write_ranks(json, "observed", job.observed());
  view::write_ranks(json, "unobserved", job.unobserved());
  view::write_time(json, "now", ns_of(job.now));
  json.key("progress").begin_object().field("source", name_of(job.progress.source));
  view::write_time(json, "last", view::maybe_ns(job.progress.last_at));
  json.field("index", job.progress.index.maybe());
  json.field("per_second", job.progress.per_second.maybe());
  json.end_object().end_object();
}

}  // namespace

std::string why_json(const std::vector<JobView>& jobs, const std::vector<Verdict>& verdicts,
                     const std::vector<std::string>& notes) {
  JsonWriter json;
  json.begin_object().field("schema", "rung.why/1");
  json.key("jobs").begin_array();
  for (const JobView& job : jobs) write_job(json, job, verdicts);
  json.end_array().key("verdicts").begin_array();
  for (const Verdict& verdict : verdicts) view::write_verdict(json, verdict);
  json.end_array().key("coverage").begin_array();
  for (const JobView& job : jobs) {
    for (const RankView& rank : job.ranks) {
      for (const RungCoverage& coverage : rank.coverage) {
        json.begin_object().field("job", job.job.text).field("rank", rank.rank.value);
        view::write_coverage(json, coverage);
        json.end_object();
      }
    }
  }
  json.end_array().key("notes").begin_array();
  for (const std::string& note : notes) json.value(note);
  json.end_array().end_object();
  return json.take();
}

}  // namespace rung
