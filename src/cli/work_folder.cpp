#include "cli/work_folder.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace rung::cli {

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  if (!path_.empty() && !keep_) std::filesystem::remove_all(path_, ignored);
}

Result<void> WorkFolder::make(const std::string& name) {
  const char* base = std::getenv("TMPDIR");
  std::string pattern =
      std::string(base != nullptr && *base != 0 ? base : "/tmp") + "/" + name + ".XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    return fail_errno(errno, "cannot make a temporary folder " + pattern, "set TMPDIR");
  }
  path_ = pattern;
  return {};
}

}  // namespace rung::cli
