// doctor: what each rung could do here.
#include <fmt/format.h>

#include "agent/config.h"
#include "capability/doctor.h"
#include "cli/commands.h"

namespace rung::cli {

int doctor(const DoctorOptions& options) {
  const std::string path = options.config.empty() ? kDefaultConfigPath : options.config;
  const Result<AgentConfig> config = load_config(path);
  if (!config) return complain("doctor", config.error());
  DoctorRequest request;
  request.root = options.root;
  request.pid = options.pid;
  request.nvml_library = config->nvml_library;
  for (const AcceptedNccl& accepted : config->accepted_nccl) {
    request.accepted_nccl.push_back(accepted.build_id);
  }
  const Result<DoctorReport> report = examine(request);
  if (!report) return complain("doctor", report.error());
  fmt::print("{}",
             options.json ? doctor_json(*report) + "\n" : doctor_text(*report, want_colour()));
  return 0;
}

}  // namespace rung::cli
