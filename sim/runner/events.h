// What the launcher tells the runner over a pipe: fixed records, each written at once.
#pragma once

#include <cstdint>

namespace rung::sim {

struct LauncherEvent {
  enum Kind : std::int32_t { kStarted = 1, kEnded = 2 };
  std::int32_t kind;
  std::int32_t rank;
  std::int32_t pid;
  std::int32_t wait_status;  // of waitpid, kEnded only
};
static_assert(sizeof(LauncherEvent) == 16);

}  // namespace rung::sim
