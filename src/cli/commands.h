// The commands a person types. Each gives the exit code of the process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace rung::cli {

struct WhyOptions {
  AgentOptions agent;
  std::string job;
  std::string at;  // RFC 3339, seconds since 1970, or "-90s"
  std::vector<std::string> fail_on;
  std::string save;
  bool json = false;
};
int why(const WhyOptions& options);

struct StatusOptions {
  AgentOptions agent;
  bool json = false;
};
int status(const StatusOptions& options);

struct AgentCommandOptions {
  std::string config;
  bool check = false;
};
int agent(const AgentCommandOptions& options);

struct DoctorOptions {
  std::string config;
  std::string root = "/";
  std::optional<int> pid;
  bool json = false;
};
int doctor(const DoctorOptions& options);

struct RecordOptions {
  AgentOptions agent;
  std::string output;
  std::string job;
  double seconds = 60;
};
int record(const RecordOptions& options);

struct ReplayOptions {
  std::string file;
  std::vector<std::string> fail_on;
  bool check = false;
  bool json = false;
};
int replay(const ReplayOptions& options);

struct SimOptions {
  std::string scenario;
  std::string folder;
  std::optional<int> ranks;
  std::optional<double> seconds;
  std::optional<double> fault_seconds;
  bool list = false;
  bool json = false;
};
int sim_run(const SimOptions& options);
int sim_list(bool json);

struct DemoOptions {
  bool keep = false;  // leave the work folder in place
};
int demo(const DemoOptions& options);

}  // namespace rung::cli
