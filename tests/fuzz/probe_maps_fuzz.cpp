// The text of /proc/PID/maps: paths in it are chosen by the process.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sources/host_probes/library_scan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto found =
      rung::probed_libraries(std::string_view(reinterpret_cast<const char*>(data), size));
  if (found.size() > 8) std::abort();
  for (const auto& library : found) {
    if (library.inode == 0 || !library.path.starts_with('/')) std::abort();
    if (library.map_file.find('/') != std::string::npos) std::abort();
  }
  return 0;
}
