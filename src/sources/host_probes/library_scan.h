// Which probed libraries a process has mapped, from the text of /proc/PID/maps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/observation.h"

namespace rung {

struct ProbeLibrary {
  LibraryKind kind = LibraryKind::kCuda;
  std::string path;      // as the process sees it
  std::string map_file;  // "START-END": its name under /proc/PID/map_files
  std::string device;    // "MAJOR:MINOR" and inode as maps shows them
  std::uint64_t inode = 0;
};

// One row for each distinct file that is libcuda.so*, libnccl.so* or libtorch_cuda.so, at most 8.
// An executable mapping is preferred for `map_file`. Lines that make no sense are skipped.
std::vector<ProbeLibrary> probed_libraries(std::string_view maps);

}  // namespace rung
