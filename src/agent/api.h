// Api: what callers may ask of the agent, and who may see what.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/http_server.h"
#include "agent/judge.h"
#include "agent/recordings.h"
#include "model/agent_health.h"
#include "model/observation.h"

namespace rung {

class Api {
 public:
  struct Parts {
    const Judge& judge;
    Recordings& recordings;
    std::function<AgentHealth()> health;
    std::function<const std::vector<DeviceSample>&()> devices;
    std::function<UnixNs()> now;
  };
  explicit Api(Parts parts) : parts_(std::move(parts)) {}

  // GET /v1/why?job=&at=NS&fail_on=&format=json|text&colour=0|1&width=
  // GET /v1/status?format=&colour=&width=
  // POST /v1/record?seconds=&job=   -> an id; GET /v1/record/state?id=, GET /v1/record/file?id=
  // GET /metrics
  // Root sees all jobs, others their own.
  HttpReply local(const HttpRequest& request) const;

  // The Prometheus page alone, for a TCP address: it names no command line and no user data.
  HttpReply metrics(const HttpRequest& request) const;

 private:
  // What one caller may see.
  struct Visible {
    std::vector<JobView> views;
    std::vector<Verdict> verdicts;
  };
  Visible visible(std::uint32_t uid, std::vector<Verdict> verdicts) const;
  HttpReply why(const HttpRequest& request, std::uint32_t uid) const;
  HttpReply status(const HttpRequest& request, std::uint32_t uid) const;
  HttpReply record(const HttpRequest& request, std::uint32_t uid) const;
  HttpReply record_state(const HttpRequest& request, std::uint32_t uid) const;
  HttpReply record_file(const HttpRequest& request, std::uint32_t uid) const;

  Parts parts_;
};

// The jobs that `name` means: an id, a label, or the number in "slurm:NUMBER.STEP". Empty name:
// all.
std::vector<JobId> jobs_named(const std::vector<JobView>& views, const std::string& name);

}  // namespace rung
