// AgentConfig: what /etc/rung/agent.toml may say, with its defaults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace rung {

struct AcceptedNccl {
  std::string build_id;  // lower-case hex
  std::string layout;    // the NCCL version whose ncclComm layout it has, "2.28.9"
};

struct AgentConfig {
  std::string socket = "/run/rung/agent.sock";
  std::string state_dir = "/var/lib/rung";
  // Address and port of the Prometheus page; "" turns it off.
  std::string prometheus_listen = "127.0.0.1:9478";
  std::string log_level = "info";
  std::string proc_root = "/";  // tests replace it

  bool host_enabled = true;
  double host_budget_percent = 0.5;  // of one CPU, per rank, for all probes together
  std::uint32_t host_ring_kib = 4096;
  std::vector<AcceptedNccl> accepted_nccl;  // on top of those built in

  bool nvml_enabled = true;
  std::string nvml_library;  // "": libnvidia-ml.so.1 as the loader finds it
  double nvml_deadline_s = 5;
};

inline constexpr const char* kDefaultConfigPath = "/etc/rung/agent.toml";

// Reads and checks a config file. A missing file is an error unless it is the default path, which
// then means all defaults. Errors: kNoPermission (exit 77) when it cannot be read, kBadInput (65)
// with line and column when it is not valid, an unknown key included.
Result<AgentConfig> load_config(const std::string& path);

// The checks and defaults alone; `origin` names the text in messages.
Result<AgentConfig> parse_config(const std::string& text, const std::string& origin);

}  // namespace rung
