// agent: checks its config, or runs the daemon.
#include <fmt/format.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/config.h"
#include "cli/commands.h"

namespace rung::cli {
namespace {

void print_config(const AgentConfig& config, const std::string& path) {
  fmt::print("{}: valid. It means:\n", path);
  fmt::print("  socket              {}\n", config.socket);
  fmt::print("  state_dir           {}\n", config.state_dir);
  fmt::print("  prometheus_listen   {}\n",
             config.prometheus_listen.empty() ? "off" : config.prometheus_listen);
  fmt::print("  log_level           {}\n", config.log_level);
  fmt::print("  proc_root           {}\n", config.proc_root);
  fmt::print("  host.enabled        {}\n", config.host_enabled);
  fmt::print("  host.budget_percent {}\n", config.host_budget_percent);
  fmt::print("  host.ring_kib       {}\n", config.host_ring_kib);
  for (const AcceptedNccl& accepted : config.accepted_nccl) {
    fmt::print("  host.accepted_nccl  {} as {}\n", accepted.build_id, accepted.layout);
  }
  fmt::print("  nvml.enabled        {}\n", config.nvml_enabled);
  fmt::print("  nvml.library        {}\n",
             config.nvml_library.empty() ? "libnvidia-ml.so.1" : config.nvml_library);
  fmt::print("  nvml.deadline_s     {}\n", config.nvml_deadline_s);
}

}  // namespace

int agent(const AgentCommandOptions& options) {
  const std::string path = options.config.empty() ? kDefaultConfigPath : options.config;
  const Result<AgentConfig> config = load_config(path);
  if (!config) return complain("agent", config.error());
  if (options.check) {
    print_config(*config, path);
    return 0;
  }
  Result<std::unique_ptr<Agent>> daemon = Agent::create(*config, own_executable());
  if (!daemon) return complain("agent", daemon.error());
  return (*daemon)->run();
}

}  // namespace rung::cli
