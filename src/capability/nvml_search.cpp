#include "capability/nvml_search.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/strings.h"

namespace rung {
namespace {

constexpr std::size_t kCacheBytes = 8 << 20;

bool readable(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

}  // namespace

std::string path_in_loader_cache(const std::string& cache, const std::string& name) {
  // The cache ends in a table of NUL-terminated names and paths.
  const std::string wanted = "/" + name + std::string(1, '\0');
  const std::size_t at = cache.find(wanted);
  if (at == std::string::npos) return "";
  const std::size_t before = cache.rfind('\0', at);
  const std::size_t start = before == std::string::npos ? 0 : before + 1;
  return cache.substr(start, at + wanted.size() - 1 - start);
}

std::optional<std::string> find_nvml(const std::string& root, const std::string& library) {
  if (library.find('/') != std::string::npos) {
    return readable(root + library) ? std::optional(library) : std::nullopt;
  }
  const std::string name = library.empty() ? "libnvidia-ml.so.1" : library;
  std::vector<std::string> folders;
  const char* search = std::getenv("LD_LIBRARY_PATH");
  if (root.empty() && search != nullptr) {
    for (const std::string_view folder : split(search, ':')) {
      if (!folder.empty()) folders.emplace_back(folder);
    }
  }
  for (const std::string& folder : folders) {
    if (readable(folder + "/" + name)) return folder + "/" + name;
  }
  if (const auto cache = read_file(root + "/etc/ld.so.cache", kCacheBytes)) {
    const std::string path = path_in_loader_cache(*cache, name);
    if (!path.empty() && readable(root + path)) return path;
  }
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64"}) {
    const std::string path = std::string(folder) + "/" + name;
    if (readable(root + path)) return path;
  }
  return std::nullopt;
}

}  // namespace rung
