#include "sources/cpu_place/place_map.h"

#include <algorithm>

#include "sources/procfs/parse.h"

namespace rung {
namespace {

bool is_libc(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const std::string_view stem :
       {"libc.so", "libc-", "libpthread.so", "libpthread-", "ld-linux", "ld-2", "ld-musl"}) {
    if (name.starts_with(stem)) return true;
  }
  return false;
}

PlaceMap::Place place_of(std::string_view path) {
  if (path == "[vdso]") return PlaceMap::Place::kCuda;
  const auto kind = library_kind(path);
  if (kind == LibraryKind::kCuda || kind == LibraryKind::kCudart || kind == LibraryKind::kNccl) {
    return PlaceMap::Place::kCuda;
  }
  return is_libc(path) ? PlaceMap::Place::kLibc : PlaceMap::Place::kOther;
}

}  // namespace

PlaceMap::PlaceMap(std::string_view maps) {
  for (const MapLine& map : parse_maps(maps)) {
    if (map.executable) ranges_.push_back({map.start, map.end, place_of(map.path)});
  }
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.start < b.start; });
}

PlaceMap::Place PlaceMap::at(std::uint64_t address) const {
  auto above = std::upper_bound(
      ranges_.begin(), ranges_.end(), address,
      [](std::uint64_t wanted, const Range& range) { return wanted < range.start; });
  if (above == ranges_.begin()) return Place::kNowhere;
  --above;
  return address < above->end ? above->place : Place::kNowhere;
}

bool PlaceMap::in_cuda(std::uint64_t instruction, const std::vector<std::uint64_t>& callers) const {
  Place place = at(instruction);
  for (const std::uint64_t caller : callers) {
    if (place != Place::kLibc) break;
    const Place above = at(caller);
    if (above != Place::kNowhere) place = above;
  }
  return place == Place::kCuda;
}

}  // namespace rung
