#include "sources/nvml/device_reader.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "sources/nvml/process_list.h"

namespace rung::nvml {
namespace {

constexpr std::int64_t kGpmLeastNs = 100'000'000;  // between two GPM samples
constexpr unsigned kProcessRoom = 256;
constexpr unsigned kProcessRoomMost = 4096;

std::optional<std::uint64_t> integer_of(const FieldValue& field) {
  if (field.result != kSuccess) return std::nullopt;
  switch (static_cast<ValueType>(field.value_type)) {
    case ValueType::kU32:
      return field.value.u32;
    case ValueType::kUnsignedLong:
    case ValueType::kU64:
      return field.value.u64;
    case ValueType::kU16:
      return field.value.u16;
    case ValueType::kI64:
      if (field.value.i64 >= 0) return static_cast<std::uint64_t>(field.value.i64);
      return std::nullopt;
    case ValueType::kI32:
      if (field.value.i32 >= 0) return static_cast<std::uint64_t>(field.value.i32);
      return std::nullopt;
    case ValueType::kDouble:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

DeviceReader::DeviceReader(const NvmlLibrary& library, int index)
    : library_(library), calls_(library.calls()), index_(index) {}

DeviceReader::~DeviceReader() {
  if (gpm_before_ != nullptr) calls_.gpm_free(gpm_before_);
  if (gpm_after_ != nullptr) calls_.gpm_free(gpm_after_);
}

bool DeviceReader::good(const char* call, Return code) {
  if (is_fatal(code) && !fatal_) {
    fatal_ = Failure{vendor::Status::kError, code, std::string(call) + ": " + text_of(code)};
  }
  return code == kSuccess;
}

bool DeviceReader::open() {
  if (device_ != nullptr) return true;
  constexpr const char* kCall = "nvmlDeviceGetHandleByIndex_v2";
  const Return code = calls_.handle_by_index(static_cast<unsigned>(index_), &device_);
  if (code != kSuccess) {
    device_ = nullptr;
    fatal_ = Failure{vendor::Status::kError, code, std::string(kCall) + ": " + text_of(code)};
    return false;
  }
  std::array<char, kUuidBytes> text{};
  if (good("nvmlDeviceGetUUID", calls_.uuid(device_, text.data(), kUuidBytes))) {
    text.back() = '\0';
    uuid_ = text.data();
  }
  text.fill('\0');
  if (calls_.name != nullptr &&
      good("nvmlDeviceGetName", calls_.name(device_, text.data(), kNameBytes))) {
    text.back() = '\0';
    name_ = text.data();
  }
  return true;
}

std::optional<DeviceSample> DeviceReader::read(Failure* failure) {
  fatal_.reset();
  DeviceSample sample;
  if (open()) {
    sample.device.uuid = uuid_;
    sample.name = name_;
    sample.index = index_;
    sample.simulated = library_.simulated();
    read_basics(&sample);
    if (!fatal_) read_memory(&sample);
    if (!fatal_) read_nvlink(&sample);
    if (!fatal_) read_processes(&sample);
    if (!fatal_) read_gpm(&sample);
  }
  if (fatal_) {
    *failure = *fatal_;
    return std::nullopt;
  }
  return sample;
}

void DeviceReader::read_basics(DeviceSample* sample) {
  Utilization rates{};
  if (calls_.utilization != nullptr &&
      good("nvmlDeviceGetUtilizationRates", calls_.utilization(device_, &rates))) {
    sample->utilization_percent = rates.gpu;
  }
  unsigned number = 0;
  if (calls_.power != nullptr && good("nvmlDeviceGetPowerUsage", calls_.power(device_, &number))) {
    sample->power_watts = number / 1000.0;  // from milliwatts
  }
  if (calls_.clock != nullptr) {
    constexpr const char* kCall = "nvmlDeviceGetClockInfo";
    if (good(kCall, calls_.clock(device_, kClockSm, &number))) sample->sm_clock_mhz = number;
    if (good(kCall, calls_.clock(device_, kClockMemory, &number))) {
      sample->memory_clock_mhz = number;
    }
  }
  if (calls_.temperature != nullptr &&
      good("nvmlDeviceGetTemperature", calls_.temperature(device_, kTemperatureGpu, &number))) {
    sample->temperature_celsius = number;
  }
  unsigned long long reasons = 0;
  if (calls_.clock_reasons != nullptr &&
      good("nvmlDeviceGetCurrentClocksEventReasons", calls_.clock_reasons(device_, &reasons))) {
    sample->clock_event_reasons = reasons;
  }
}

void DeviceReader::read_memory(DeviceSample* sample) {
  MemoryV2 newer{};
  newer.version = kMemoryV2Tag;
  if (calls_.memory_v2 != nullptr &&
      good("nvmlDeviceGetMemoryInfo_v2", calls_.memory_v2(device_, &newer))) {
    sample->memory_total_bytes = newer.total;
    sample->memory_used_bytes = newer.used;
    return;
  }
  Memory memory{};
  if (calls_.memory != nullptr &&
      good("nvmlDeviceGetMemoryInfo", calls_.memory(device_, &memory))) {
    sample->memory_total_bytes = memory.total;
    sample->memory_used_bytes = memory.used;
  }
}

void DeviceReader::read_nvlink(DeviceSample* sample) {
  if (calls_.fields == nullptr) return;
  std::array<FieldValue, 2> fields{};
  fields[0].field = kFieldNvlinkTx;
  fields[1].field = kFieldNvlinkRx;
  for (FieldValue& field : fields) {
    field.scope = kScopeAllLinks;
    field.result = kUnknown;  // what is not written is not known
  }
  if (!good("nvmlDeviceGetFieldValues", calls_.fields(device_, 2, fields.data()))) return;
  sample->nvlink_tx_kib = integer_of(fields[0]);
  sample->nvlink_rx_kib = integer_of(fields[1]);
}

void DeviceReader::read_processes(DeviceSample* sample) {
  const bool old = calls_.processes == nullptr;
  const auto call = old ? calls_.old_processes : calls_.processes;
  if (call == nullptr) return;
  unsigned room = kProcessRoom;
  for (int tries = 0; tries < 2; ++tries) {
    // Room for the widest entries: some drivers write them whatever the caller expects.
    std::vector<std::byte> bytes(room * kProcessStrideWide);
    unsigned count = room;
    const Return code = call(device_, &count, bytes.data());
    if (code == kInsufficientSize) {
      room = std::clamp(count + 16, kProcessRoom, kProcessRoomMost);
      continue;
    }
    if (!good("nvmlDeviceGetComputeRunningProcesses", code)) return;
    count = std::min(count, room);
    sample->compute_pids = old ? pids_of_old_list(bytes, count)
                               : pids_of_list(bytes, count, sample->memory_total_bytes.value_or(0));
    return;
  }
}

bool DeviceReader::prepare_gpm() {
  if (!gpm_supported_) {
    GpmSupport support{1, 0};
    const bool complete = calls_.gpm_support != nullptr && calls_.gpm_alloc != nullptr &&
                          calls_.gpm_free != nullptr && calls_.gpm_get != nullptr &&
                          calls_.gpm_metrics != nullptr;
    gpm_supported_ =
        complete && calls_.gpm_support(device_, &support) == kSuccess && support.is_supported != 0;
  }
  if (!*gpm_supported_) return false;
  for (GpmSample* sample : {&gpm_before_, &gpm_after_}) {
    if (*sample == nullptr && calls_.gpm_alloc(sample) != kSuccess) *sample = nullptr;
  }
  return gpm_before_ != nullptr && gpm_after_ != nullptr;
}

void DeviceReader::read_gpm(DeviceSample* sample) {
  const std::int64_t now = mono_now_ns();
  const bool too_early = gpm_before_ns_ != 0 && now - gpm_before_ns_ < kGpmLeastNs;
  if (too_early || !prepare_gpm()) return;
  if (!good("nvmlGpmSampleGet", calls_.gpm_get(device_, gpm_after_))) return;
  if (gpm_before_ns_ != 0) {
    const std::array<std::pair<unsigned, std::optional<double>*>, 4> wanted = {{
        {kGpmSmActive, &sample->sm_active_percent},
        {kGpmSmOccupancy, &sample->sm_occupancy_percent},
        {kGpmTensorActive, &sample->tensor_active_percent},
        {kGpmDramActive, &sample->dram_active_percent},
    }};
    static GpmMetricsGet request;  // 13 KB, and this process has one thread
    request = GpmMetricsGet{};
    request.version = 1;
    request.count = static_cast<unsigned>(wanted.size());
    request.before = gpm_before_;
    request.after = gpm_after_;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      request.metrics[i].id = wanted[i].first;
      request.metrics[i].result = kUnknown;
    }
    if (good("nvmlGpmMetricsGet", calls_.gpm_metrics(&request))) {
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const GpmMetric& metric = request.metrics[i];
        if (metric.result == kSuccess) *wanted[i].second = metric.value;
      }
    }
  }
  std::swap(gpm_before_, gpm_after_);
  gpm_before_ns_ = now;
}

}  // namespace rung::nvml
