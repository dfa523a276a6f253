// /proc/PID/maps, whose paths the process chooses, and what is made of it.
#include <string_view>

#include "sources/cpu_place/place_map.h"
#include "sources/procfs/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::uint64_t bad = 0;
  for (const rung::MapLine& map : rung::parse_maps(text, &bad)) {
    if (map.end <= map.start) __builtin_trap();
    static_cast<void>(rung::library_kind(map.path));
    static_cast<void>(rung::version_in_name(map.path));
  }
  const rung::PlaceMap places(text);
  static_cast<void>(places.in_cuda(0x1000, {0, ~0ULL, 0x2000}));
  return 0;
}
