#include "sources/cpu_place/cpu_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "base/files.h"
#include "model/limits.h"
#include "sources/cpu_place/place_map.h"
#include "sources/cpu_place/thread_clock.h"

namespace rung {
namespace {

constexpr std::uint64_t kPeriodNs = 1'000'000'000 / CpuPlaceSampler::kHertz;

PlaceMap read_map(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/maps", pid), limits::kMapsBytes);
  return text ? PlaceMap(*text) : PlaceMap();
}

}  // namespace

class CpuPlaceSampler::Impl {
 public:
  Impl(pid_t pid, PlaceMap map, std::chrono::nanoseconds duration)
      : pid_(pid),
        map_(std::move(map)),
        start_ns_(mono_now_ns()),
        end_ns_(start_ns_ + ns(duration)) {}

  Result<void> add(pid_t tid) {
    const auto room =
        static_cast<std::size_t>((end_ns_ - start_ns_) / static_cast<std::int64_t>(kPeriodNs));
    auto clock = ThreadClock::open(tid, kPeriodNs, room + kHertz / 2);
    if (!clock) return tl::unexpected(clock.error());
    clocks_.push_back(std::move(*clock));
    return {};
  }
  bool any() const { return !clocks_.empty(); }

  bool done() const { return mono_now_ns() >= end_ns_; }

  CpuPlace finish() {
    const std::int64_t end = std::min(mono_now_ns(), end_ns_);
    // A library may have been loaded since; a process that is gone leaves the first look.
    if (PlaceMap now = read_map(pid_); !now.empty()) map_ = std::move(now);
    CpuPlace place;
    place.window = std::chrono::nanoseconds(end - start_ns_);
    for (ThreadClock& clock : clocks_) {
      for (const ThreadClock::Sample& sample : clock.finish()) {
        if (sample.mono_ns > end) continue;
        ++place.samples;
        place.in_cuda += map_.in_cuda(sample.instruction, sample.callers);
      }
    }
    clocks_.clear();
    return place;
  }

 private:
  static std::int64_t ns(std::chrono::nanoseconds duration) {
    return std::clamp<std::int64_t>(duration.count(), 0, kMostNs);
  }
  static constexpr std::int64_t kMostNs = 60'000'000'000;

  pid_t pid_;
  PlaceMap map_;
  std::int64_t start_ns_;
  std::int64_t end_ns_;
  std::vector<ThreadClock> clocks_;
};

CpuPlaceSampler::CpuPlaceSampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CpuPlaceSampler::~CpuPlaceSampler() = default;

Result<std::unique_ptr<CpuPlaceSampler>> CpuPlaceSampler::start(pid_t pid,
                                                                const std::vector<pid_t>& tids,
                                                                std::chrono::nanoseconds duration) {
  PlaceMap map = read_map(pid);
  if (map.empty()) {
    return fail(ErrorCode::kNotFound, fmt::format("cannot read the memory map of process {}", pid),
                "it is gone, or it belongs to another user");
  }
  auto impl = std::make_unique<Impl>(pid, std::move(map), duration);
  std::optional<Error> first_error;
  for (std::size_t i = 0; i < std::min(tids.size(), kMostThreads); ++i) {
    const auto added = impl->add(tids[i]);
    if (added || first_error) continue;
    first_error = added.error();
  }
  if (!impl->any()) {
    if (first_error) return tl::unexpected(*first_error);
    return fail(ErrorCode::kNotFound, fmt::format("process {} has no thread to sample", pid));
  }
  return std::unique_ptr<CpuPlaceSampler>(new CpuPlaceSampler(std::move(impl)));
}

bool CpuPlaceSampler::done() const { return impl_->done(); }
CpuPlace CpuPlaceSampler::finish() { return impl_->finish(); }

}  // namespace rung
