// Time points and durations that carry their meaning. A rule sees JobNs only.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>

#include "model/known.h"

namespace rung {

template <class Tag>
struct Axis {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<Axis>;
  static constexpr bool is_steady = false;
};

using MonoNs =
    Axis<struct MonoTag>::time_point;  // one host's monotonic clock; never leaves the agent
using UnixNs = Axis<struct UnixTag>::time_point;  // one host's wall clock
using JobNs = Axis<struct JobTag>::time_point;    // aligned over all ranks of a job

constexpr std::int64_t ns_of(std::chrono::nanoseconds d) { return d.count(); }
template <class Tag>
constexpr std::int64_t ns_of(std::chrono::time_point<Axis<Tag>> t) {
  return t.time_since_epoch().count();
}
constexpr UnixNs unix_ns(std::int64_t ns) { return UnixNs(std::chrono::nanoseconds(ns)); }
constexpr JobNs job_ns(std::int64_t ns) { return JobNs(std::chrono::nanoseconds(ns)); }

// What a duration is of.
enum class DurationKind : std::uint8_t {
  kHostCall,      // time inside a host call
  kQueue,         // from launch to device start
  kDeviceKernel,  // residency on the device
  kProxy,         // NCCL proxy work
  kEndToEnd,      // from the program's own start to its own end, by device events
};
const char* name_of(DurationKind kind);  // "host_call", "queue", ...

template <DurationKind K>
class Elapsed {
 public:
  static constexpr DurationKind kKind = K;
  constexpr explicit Elapsed(std::chrono::nanoseconds d) : d_(d) {}
  template <std::integral I>
  Elapsed(I) = delete;  // a bare integer has no unit
  constexpr std::chrono::nanoseconds ns() const { return d_; }
  friend constexpr Elapsed operator+(Elapsed a, Elapsed b) { return Elapsed(a.d_ + b.d_); }
  friend constexpr auto operator<=>(Elapsed a, Elapsed b) = default;

 private:
  std::chrono::nanoseconds d_;
};
template <DurationKind A, DurationKind B>
  requires(A != B)
auto operator+(Elapsed<A>, Elapsed<B>) = delete;
template <DurationKind A, DurationKind B>
  requires(A != B)
auto operator<=>(Elapsed<A>, Elapsed<B>) = delete;

// Durations from which a bandwidth may be computed: a host call only enqueues.
template <DurationKind K>
concept TimesTheTransfer = K == DurationKind::kDeviceKernel || K == DurationKind::kEndToEnd;

struct Bytes {
  std::uint64_t count = 0;
};
struct GBps {
  double value = 0;  // 1e9 bytes a second
};

template <DurationKind K>
  requires TimesTheTransfer<K>
Known<GBps> algorithm_bandwidth(Bytes size, Elapsed<K> took) {
  if (took.ns().count() <= 0) return Unknown{"duration is zero"};
  return GBps{static_cast<double>(size.count) / static_cast<double>(took.ns().count())};
}

}  // namespace rung
