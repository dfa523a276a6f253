// Scenario files: whatever is accepted must survive being written and read again.
#include <cstdint>
#include <string>

#include "rung_sim/runner.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto scenario = rung::sim::parse_scenario(text, "fuzz");
  if (!scenario) return 0;
  const auto again = rung::sim::parse_scenario(rung::sim::to_toml(*scenario), "again");
  if (!again || rung::sim::to_toml(*again) != rung::sim::to_toml(*scenario)) __builtin_trap();
  return 0;
}
