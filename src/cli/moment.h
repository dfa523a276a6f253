// Points in time as people type them.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace rung::cli {

// "2026-11-29T13:23:05Z" (fraction allowed), "1795958585" (seconds since 1970) or "-90s", "-5m",
// "-1h" before `now_ns`. Gives ns since 1970. Errors: kUsage.
Result<std::int64_t> parse_moment(const std::string& text, std::int64_t now_ns);

}  // namespace rung::cli
