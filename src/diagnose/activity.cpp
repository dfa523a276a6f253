#include "diagnose/activity.h"

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/facts.h"
#include "diagnose/text.h"
#include "diagnose/thresholds.h"

namespace rung {
namespace {

Doing active(const RankView& rank, std::string why, double value, std::string unit) {
  Doing out{Doing::What::kActive, std::move(why), {}};
  out.facts.push_back(procfs_fact(rank, out.why, value, std::move(unit)));
  return out;
}

std::string over(const Activity& activity, std::uint64_t bytes) {
  return fmt::format("{} in {}", bytes_text(bytes), duration_text(activity.window));
}

bool above_noise(const Activity& activity, std::uint64_t bytes) {
  return static_cast<double>(bytes) >
         static_cast<double>(kNoiseBytesPerSecond) * std::max(1.0, seconds_of(activity.window));
}

// Whether it uses no CPU that could mean work; the reason when that is not known.
struct Cpu {
  enum class Use : std::uint8_t { kIdle, kWorking, kUnknown } use = Use::kUnknown;
  std::string text;
  double share = 0;
};
Cpu cpu_of(const Activity& activity) {
  const auto outside = activity.cpu_outside_cuda_share.maybe();
  const auto all = activity.cpu_share.maybe();
  if (all && *all < kIdleCpuShare) {
    return {Cpu::Use::kIdle, fmt::format("it uses {:.1f} % of a core", *all * 100), *all};
  }
  if (outside) {
    return {*outside < kIdleCpuShare ? Cpu::Use::kIdle : Cpu::Use::kWorking,
            fmt::format("it uses {:.1f} % of a core outside CUDA", *outside * 100), *outside};
  }
  if (!all) return {Cpu::Use::kUnknown, "its CPU use is not known", 0};
  return {Cpu::Use::kUnknown,
          fmt::format("it uses {:.0f} % of a core and where is not known", *all * 100), *all};
}

Doing inactive(const RankView& rank, const Cpu& cpu) {
  Doing out{Doing::What::kInactive, cpu.text + " and moves no data", {}};
  const bool sampled = rank.activity.cpu_outside_cuda_share.maybe().has_value();
  Fact fact = procfs_fact(rank, cpu.text, cpu.share * 100, "%");
  if (sampled) fact.source = "cpu_place";
  out.facts.push_back(std::move(fact));
  out.facts.push_back(procfs_fact(
      rank,
      fmt::format("it read and wrote less than {} in {}", bytes_text(kNoiseBytesPerSecond * 10),
                  duration_text(rank.activity.window)),
      static_cast<double>(*rank.activity.read_bytes.maybe() + *rank.activity.written_bytes.maybe()),
      "B"));
  if (rank.activity.threads_disk_sleep > 0) {
    out.facts.push_back(procfs_fact(rank, "threads of it sleep in the kernel for a disk (state D)",
                                    rank.activity.threads_disk_sleep, "threads"));
  }
  return out;
}

}  // namespace

Doing doing_of(const RankView& rank) {
  const Activity& activity = rank.activity;
  if (activity.window.count() <= 0) {
    return {Doing::What::kUnclear, "what it does was not sampled yet", {}};
  }
  const auto written = activity.written_bytes.maybe();
  const auto read = activity.read_bytes.maybe();
  if (written && *written >= kCheckpointBytes) {
    Doing out{Doing::What::kWriting, "it wrote " + over(activity, *written), {}};
    out.facts.push_back(procfs_fact(rank, out.why, static_cast<double>(*written), "B"));
    return out;
  }
  if (read && above_noise(activity, *read)) {
    return active(rank, "it read " + over(activity, *read), static_cast<double>(*read), "B");
  }
  if (written && above_noise(activity, *written)) {
    return active(rank, "it wrote " + over(activity, *written), static_cast<double>(*written), "B");
  }
  if (activity.child_compilers > 0) {
    return active(rank, "it runs a compiler", activity.child_compilers, "processes");
  }
  const Cpu cpu = cpu_of(activity);
  if (cpu.use == Cpu::Use::kWorking) return active(rank, cpu.text, cpu.share * 100, "%");
  if (!read || !written) return {Doing::What::kUnclear, "its I/O could not be read", {}};
  if (cpu.use == Cpu::Use::kUnknown) return {Doing::What::kUnclear, cpu.text, {}};
  return inactive(rank, cpu);
}

bool spins_in_cuda(const RankView& rank) {
  const auto all = rank.activity.cpu_share.maybe();
  const auto outside = rank.activity.cpu_outside_cuda_share.maybe();
  return all && outside && *all >= kSpinningCpuShare && *outside < kIdleCpuShare;
}

Known<bool> device_busy(const RankView& rank) {
  if (!rank.device || !rank.device->utilization_percent) return Unknown{"no device sample"};
  return *rank.device->utilization_percent >= kBusyUtilizationPercent;
}

bool may_block_on_device(const RankView& rank) {
  if (rank.threads.empty()) return true;
  return std::any_of(rank.threads.begin(), rank.threads.end(), [](const ThreadCall& thread) {
    return thread.call != RUNG_CALL_LAUNCH && thread.call != RUNG_CALL_GRAPH_LAUNCH &&
           thread.call != RUNG_CALL_SET && thread.call != RUNG_CALL_OTHER;
  });
}

}  // namespace rung
