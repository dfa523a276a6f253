// /proc/PID/cgroup, of whose paths a user may choose a part.
#include <string_view>

#include "sources/scheduler/identity.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto job = rung::job_of_cgroup(text, 1000);
  constexpr std::size_t kMostJobBytes = 160;  // two ids of at most 64 bytes and a prefix
  if (job && (job->size() > kMostJobBytes || job->find('/') != std::string::npos)) __builtin_trap();
  return 0;
}
