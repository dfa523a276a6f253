#include "export/json_parts.h"
#include "export/status.h"
#include "export/summary.h"

namespace rung {
namespace {

void write_device(JsonWriter& json, const std::optional<DeviceSample>& device) {
  json.key("device");
  if (!device) {
    json.null();
    return;
  }
  json.begin_object().field("uuid", device->device.uuid).field("index", device->index);
  json.field("name", device->name).field("utilization_percent", device->utilization_percent);
  json.field("sm_active_percent", device->sm_active_percent);
  json.field("memory_used_bytes", device->memory_used_bytes);
  json.field("memory_total_bytes", device->memory_total_bytes);
  json.field("power_watts", device->power_watts).field("sm_clock_mhz", device->sm_clock_mhz);
  json.field("temperature_celsius", device->temperature_celsius);
  json.field("simulated", device->simulated).end_object();
}

void write_call(JsonWriter& json, const RankView& rank) {
  json.key("last_call");
  if (rank.threads.empty()) {
    json.null();
    return;
  }
  const ThreadCall& call = rank.threads.front();
  json.begin_object().field("tid", call.tid).field("class", name_of(call.call));
  json.field("function", call.function);
  view::write_time(json, "entered", ns_of(call.entered));
  json.key("thread_state");
  call.thread_state == '?' ? json.null() : json.value(std::string_view(&call.thread_state, 1));
  json.end_object();
}

void write_progress(JsonWriter& json, const JobView& job, const RankView& rank) {
  const auto progress = view::progress_of(job, rank.rank);
  json.key("progress").begin_object();
  json.key("collectives_entered");
  progress ? json.value(progress->entered) : json.null();
  json.key("comm_size");
  progress ? json.value(progress->comm_size) : json.null();
  view::write_time(json, "last_collective", view::maybe_ns(rank.last_collective_at));
  view::write_time(json, "last_launch", view::maybe_ns(rank.last_launch_at));
  view::write_time(json, "last_call", view::maybe_ns(rank.last_call_at));
  json.end_object();
}

void write_rank(JsonWriter& json, const JobView& job, const RankView& rank) {
  json.begin_object().field("rank", rank.rank.value).field("pid", rank.process.pid);
  json.field("host", rank.host).field("executable", rank.executable);
  json.field("state", view::state_of(rank));
  write_device(json, rank.device);
  write_progress(json, job, rank);
  write_call(json, rank);
  json.field("cpu_cores", rank.activity.cpu_share.maybe());
  json.key("coverage").begin_array();
  for (const RungCoverage& coverage : rank.coverage) {
    json.begin_object();
    view::write_coverage(json, coverage);
    json.end_object();
  }
  json.end_array().end_object();
}

void write_job(JsonWriter& json, const JobView& job, const std::vector<Verdict>& verdicts) {
  json.begin_object();
  view::write_job_identity(json, job);
  json.field("state", view::job_state(job, verdicts));
  json.field("world_size", job.world_size.maybe());
  json.key("verdicts").begin_array();
  for (const Verdict* verdict : view::verdicts_of(job, verdicts)) json.value(verdict->kind);
  json.end_array().key("ranks").begin_array();
  for (const RankView& rank : job.ranks) write_rank(json, job, rank);
  json.end_array().end_object();
}

void write_worker(JsonWriter& json, const WorkerHealth& worker) {
  json.begin_object().field("device", worker.device).field("pid", worker.pid);
  json.field("blocked", worker.blocked).key("blocked_seconds");
  worker.blocked ? json.value(worker.blocked_seconds) : json.null();
  json.field("restarts", worker.restarts).field("resident_bytes", worker.resident_bytes);
  json.end_object();
}

void write_agent(JsonWriter& json, const AgentHealth& agent) {
  json.key("agent").begin_object().field("version", agent.version).field("host", agent.host);
  json.field("pid", agent.pid);
  view::write_time(json, "started", ns_of(agent.started));
  json.field("ticks", agent.ticks).field("ticks_late", agent.ticks_late);
  json.field("last_tick_ms", agent.last_tick_ms).field("cpu_seconds", agent.cpu_seconds);
  json.field("resident_bytes", agent.resident_bytes).field("observations", agent.observations);
  json.field("records_lost", agent.records_lost).field("probe_links", agent.probe_links);
  json.field("probe_cost_ns", agent.probe_cost_ns).field("probe_share", agent.probe_share);
  json.field("probes_thinned", agent.probes_thinned).field("host_rung", agent.host_rung);
  json.field("short_lived", agent.short_lived).key("workers").begin_array();
  for (const WorkerHealth& worker : agent.workers) write_worker(json, worker);
  json.end_array().end_object();
}

}  // namespace

std::string status_json(const std::vector<JobView>& jobs, const std::vector<Verdict>& verdicts,
                        const AgentHealth& agent) {
  JsonWriter json;
  json.begin_object().field("schema", "rung.status/1").key("jobs").begin_array();
  for (const JobView& job : jobs) write_job(json, job, verdicts);
  json.end_array();
  write_agent(json, agent);
  json.end_object();
  return json.take();
}

}  // namespace rung
