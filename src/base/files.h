// Reading small files and folders, always with a bound.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace rung {

// The first `max_bytes` bytes of a file. Works for /proc files, whose size is unknown.
// Errors: kNotFound, kNoPermission, kUnavailable.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes);

// Writes a file through a temporary beside it, so that a reader sees all of it or none.
Result<void> write_file_atomically(const std::string& path, const std::string& text);

// The names in a folder without "." and "..", unsorted, at most `max_entries`.
Result<std::vector<std::string>> list_folder(const std::string& path, std::size_t max_entries);

// Target of a symbolic link. Errors as read_file.
Result<std::string> read_link(const std::string& path);

}  // namespace rung
