// The control file of the simulated NVML, which people write by hand.
#include <cstdint>
#include <string_view>

#include "fakes/nvml/control.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto control = rung::sim::parse_nvml_control({reinterpret_cast<const char*>(data), size});
  for (const auto& rule : control.blocks) {
    if (rule.value < 0 || rule.name.empty()) __builtin_trap();
  }
  return 0;
}
