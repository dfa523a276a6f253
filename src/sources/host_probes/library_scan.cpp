#include "sources/host_probes/library_scan.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include <fmt/format.h>

#include "base/strings.h"

namespace rung {
namespace {

constexpr std::size_t kMostLibraries = 8;

std::optional<LibraryKind> kind_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name.starts_with("libcuda.so")) return LibraryKind::kCuda;
  if (name.starts_with("libnccl.so")) return LibraryKind::kNccl;
  if (name.starts_with("libtorch_cuda.so")) return LibraryKind::kTorchCuda;
  return std::nullopt;
}

// The next blank-separated word of `line`, which is shortened.
std::string_view take_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t end = std::min(line.find(' ', begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

struct Line {
  ProbeLibrary library;
  bool executable = false;
};

std::optional<Line> parse(std::string_view line) {
  const std::string_view range = take_word(line);
  const std::string_view rights = take_word(line);
  take_word(line);  // offset
  const std::string_view device = take_word(line);
  const auto inode = parse_number<std::uint64_t>(take_word(line));
  std::string_view path = trimmed(line);
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  const std::size_t dash = range.find('-');
  if (!inode || *inode == 0 || !path.starts_with('/') || dash == std::string_view::npos ||
      rights.size() < 3) {
    return std::nullopt;
  }
  const auto begin = parse_number<std::uint64_t>(range.substr(0, dash), 16);
  const auto end = parse_number<std::uint64_t>(range.substr(dash + 1), 16);
  if (!begin || !end) return std::nullopt;
  const auto kind = kind_of(path);
  if (!kind) return std::nullopt;
  return Line{{*kind, std::string(path), fmt::format("{:x}-{:x}", *begin, *end),
               std::string(device), *inode},
              rights[2] == 'x'};
}

}  // namespace

std::vector<ProbeLibrary> probed_libraries(std::string_view maps) {
  std::vector<ProbeLibrary> out;
  while (!maps.empty()) {
    const std::size_t end = std::min(maps.find('\n'), maps.size());
    auto line = parse(maps.substr(0, end));
    maps.remove_prefix(std::min(end + 1, maps.size()));
    if (!line) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const ProbeLibrary& known) {
      return known.inode == line->library.inode && known.device == line->library.device;
    });
    if (same == out.end()) {
      if (out.size() < kMostLibraries) out.push_back(std::move(line->library));
    } else if (line->executable) {
      same->map_file = line->library.map_file;
    }
  }
  return out;
}

}  // namespace rung
