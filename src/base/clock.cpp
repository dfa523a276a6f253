#include "base/clock.h"

#include <fmt/format.h>
#include <time.h>

namespace rung {
namespace {

std::int64_t now_ns(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

std::int64_t unix_now_ns() { return now_ns(CLOCK_REALTIME); }
std::int64_t mono_now_ns() { return now_ns(CLOCK_MONOTONIC); }
std::int64_t boot_now_ns() { return now_ns(CLOCK_BOOTTIME); }

std::string rfc3339(std::int64_t unix_ns) {
  std::int64_t seconds = unix_ns / 1'000'000'000;
  std::int64_t rest = unix_ns % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --seconds;
  }
  const time_t whole = static_cast<time_t>(seconds);
  tm parts{};
  ::gmtime_r(&whole, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     rest / 1'000'000);
}

}  // namespace rung
