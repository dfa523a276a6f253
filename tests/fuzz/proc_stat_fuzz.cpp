// /proc/PID/stat, whose second field the process chooses.
#include <string_view>

#include "sources/procfs/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto stat = rung::parse_stat(text); stat && stat->comm.size() > size) __builtin_trap();
  return 0;
}
