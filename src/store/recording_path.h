// Paths of recordings, as SQLite needs them.
#pragma once

#include <string>

#include "base/result.h"

namespace rung::store {

// The path with its folder resolved, its last part as given: SQLite then refuses a link in the last
// part only. Errors: kNotFound, kNoPermission (of the folder), kUsage for an empty path.
Result<std::string> real_path(const std::string& path);

// "file:..." with `parameters`, other characters of the path escaped.
std::string file_uri(const std::string& path, const std::string& parameters);

}  // namespace rung::store
