// The control file of the simulated NVML: `nvml.control` in the run folder, read at every call.
//
//   block FUNCTION SECONDS|forever [DEVICE]   the call sleeps; removing the line releases it
//   error FUNCTION CODE [DEVICE]              the call returns this nvmlReturn_t
//   set QUANTITY VALUE [DEVICE]               temperature_c, power_mw, sm_clock_mhz, clock_reasons
//
// FUNCTION is an exported name or `*`; without DEVICE the line holds for all devices. Empty lines
// and those that begin with '#' are skipped; a line that is none of these is skipped too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rung::sim {

struct NvmlControl {
  struct Rule {
    std::string name;           // function or quantity
    std::int64_t value = 0;     // milliseconds, code or value; kForever
    std::optional<int> device;  // all devices if absent
    bool matches(std::string_view asked, std::optional<int> of_device) const;
  };
  static constexpr std::int64_t kForever = INT64_MAX;

  std::vector<Rule> blocks;
  std::vector<Rule> errors;
  std::vector<Rule> settings;
};

NvmlControl parse_nvml_control(std::string_view text);

// The last matching rule's value, or nothing.
std::optional<std::int64_t> value_of(const std::vector<NvmlControl::Rule>& rules,
                                     std::string_view name, std::optional<int> device);

}  // namespace rung::sim
