#include "sources/nvml/wire.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/strings.h"

namespace rung::vendor {
namespace {

static_assert(std::is_trivially_copyable_v<Answer> && std::is_trivially_copyable_v<Request>);

// Calls visit(number, field) for each field of a sample that may be unknown.
template <class S, class F>
void each_number(S& sample, F&& visit) {
  visit(Number::kUtilizationPercent, sample.utilization_percent);
  visit(Number::kMemoryUsedBytes, sample.memory_used_bytes);
  visit(Number::kMemoryTotalBytes, sample.memory_total_bytes);
  visit(Number::kPowerWatts, sample.power_watts);
  visit(Number::kSmClockMhz, sample.sm_clock_mhz);
  visit(Number::kMemoryClockMhz, sample.memory_clock_mhz);
  visit(Number::kTemperatureCelsius, sample.temperature_celsius);
  visit(Number::kClockEventReasons, sample.clock_event_reasons);
  visit(Number::kSmActivePercent, sample.sm_active_percent);
  visit(Number::kSmOccupancyPercent, sample.sm_occupancy_percent);
  visit(Number::kTensorActivePercent, sample.tensor_active_percent);
  visit(Number::kDramActivePercent, sample.dram_active_percent);
  visit(Number::kNvlinkTxKib, sample.nvlink_tx_kib);
  visit(Number::kNvlinkRxKib, sample.nvlink_rx_kib);
}

}  // namespace

Sample to_wire(const DeviceSample& sample) {
  Sample wire;
  put(&wire.device.uuid, sample.device.uuid);
  put(&wire.name, sample.name);
  wire.index = sample.index;
  each_number(sample, [&](Number number, const auto& field) {
    if (!field) return;
    const auto at = static_cast<std::size_t>(number);
    wire.present |= 1U << at;
    if constexpr (std::is_floating_point_v<std::decay_t<decltype(*field)>>) {
      wire.reals[at] = *field;
    } else {
      wire.integers[at] = *field;
    }
  });
  wire.pid_count =
      static_cast<std::uint32_t>(std::min<std::size_t>(sample.compute_pids.size(), kMostPids));
  std::copy_n(sample.compute_pids.begin(), wire.pid_count, wire.pids.begin());
  return wire;
}

DeviceSample from_wire(const Sample& wire, bool simulated) {
  DeviceSample sample;
  sample.device.uuid = printable(take(wire.device.uuid));
  sample.name = printable(take(wire.name));
  sample.index = wire.index;
  sample.simulated = simulated;
  each_number(sample, [&](Number number, auto& field) {
    const auto at = static_cast<std::size_t>(number);
    if ((wire.present >> at & 1U) == 0) return;
    if constexpr (std::is_floating_point_v<std::decay_t<decltype(*field)>>) {
      if (std::isfinite(wire.reals[at])) field = wire.reals[at];
    } else {
      field = wire.integers[at];
    }
  });
  sample.compute_pids.assign(wire.pids.begin(), wire.pids.begin() + wire.pid_count);
  return sample;
}

std::optional<Answer> checked_answer(const void* bytes, std::size_t size) {
  Answer answer;
  if (size != sizeof answer) return std::nullopt;
  std::memcpy(&answer, bytes, sizeof answer);
  const bool sane =
      answer.version == kVersion && (answer.ask == Ask::kEnumerate || answer.ask == Ask::kSample) &&
      answer.status <= Status::kError && answer.device_count <= answer.devices.size() &&
      answer.sample.pid_count <= kMostPids;
  return sane ? std::optional(answer) : std::nullopt;
}

}  // namespace rung::vendor
