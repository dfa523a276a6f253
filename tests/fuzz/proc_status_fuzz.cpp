// /proc/PID/status and /proc/PID/io.
#include <string_view>

#include "sources/procfs/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto status = rung::parse_status(text); status && status->ns_pids.size() > size) {
    __builtin_trap();
  }
  static_cast<void>(rung::parse_io(text));
  return 0;
}
