// The clocks of this host, in nanoseconds. Only agents, sources and commands may ask for the time.
#pragma once

#include <cstdint>
#include <string>

namespace rung {

std::int64_t unix_now_ns();  // CLOCK_REALTIME
std::int64_t mono_now_ns();  // CLOCK_MONOTONIC
std::int64_t boot_now_ns();  // CLOCK_BOOTTIME: what /proc start times and bpf_ktime_get_boot_ns use

// "2026-11-29T13:23:05.123Z", RFC 3339 in UTC with milliseconds.
std::string rfc3339(std::int64_t unix_ns);

}  // namespace rung
