#include "sources/nvml/vendor_workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/strings.h"
#include "sources/nvml/wire.h"
#include "sources/nvml/worker.h"

namespace rung {
namespace {

// Devices may come with a driver that is loaded later.
constexpr std::int64_t kLookAgainNs = 60'000'000'000;
constexpr std::chrono::milliseconds kStopWait{100};

}  // namespace

class VendorWorkers::Impl {
 public:
  explicit Impl(VendorWorkersConfig config) : config_(std::move(config)) {
    coverage_.rung = Rung::kFleet;
    coverage_.stage = Stage::kRequested;
    coverage_.detail = "NVML: devices not yet enumerated";
    coverage_.since = unix_ns(unix_now_ns());
  }

  Result<void> enumerate() {
    enumerator_ = std::make_unique<vendor::Worker>(config_, -1, "");
    const std::int64_t now = mono_now_ns();
    if (auto started = enumerator_->start(now); !started) return started;
    enumerator_->ask(vendor::Ask::kEnumerate, now);
    return {};
  }

  void request_samples() {
    const std::int64_t now = mono_now_ns();
    for (Device& device : devices_) device.worker.ask(vendor::Ask::kSample, now);
  }

  void collect(UnixNs now, std::vector<Observation>& out) {
    if (enumerator_) step_enumerator(now, out);
    for (Device& device : devices_) step_device(&device, now, out);
  }

  std::vector<int> fds() const {
    std::vector<int> out;
    each_worker([&](const vendor::Worker& worker) {
      if (worker.socket() >= 0) out.push_back(worker.socket());
    });
    return out;
  }

  std::vector<WorkerHealth> health() const {
    std::vector<WorkerHealth> out;
    const std::int64_t now = mono_now_ns();
    each_worker([&](const vendor::Worker& worker) { out.push_back(worker.health(now)); });
    return out;
  }

  void stop() {
    each_worker([](vendor::Worker& worker) { worker.kill(); });
    const std::int64_t until = mono_now_ns() + std::chrono::nanoseconds(kStopWait).count();
    bool all = false;
    while (!all) {
      all = !retired_ || retired_->all_reaped();
      each_worker([&](vendor::Worker& worker) { all = worker.all_reaped() && all; });
      if (all || mono_now_ns() >= until) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    enumerator_.reset();
    retired_.reset();
    devices_.clear();
  }

  const RungCoverage& coverage() const { return coverage_; }

 private:
  struct Device {
    vendor::Worker worker;
    Reason trouble = Reason::kNone;
    std::string detail;
  };

  template <class F>
  void each_worker(F&& visit) const {
    if (enumerator_) visit(*enumerator_);
    for (const Device& device : devices_) visit(device.worker);
  }
  template <class F>
  void each_worker(F&& visit) {
    if (enumerator_) visit(*enumerator_);
    for (Device& device : devices_) visit(device.worker);
  }

  static Observation observation(UnixNs now, Evidence what) {
    Origin from;
    from.source = Source::kNvml;
    from.rung = Rung::kFleet;
    from.at = now;
    return {from, std::move(what)};
  }

  static void report_blocking(const vendor::Worker& worker, const vendor::Worker::Step& step,
                              UnixNs now, std::vector<Observation>& out) {
    if (step.blocked) {
      const double blocked = worker.health(mono_now_ns()).blocked_seconds;
      out.push_back(observation(
          now, HealthEvent{HealthEvent::Kind::kVendorCallBlocked, blocked, worker.name()}));
    }
    if (step.returned) {
      out.push_back(observation(
          now, HealthEvent{HealthEvent::Kind::kVendorCallReturned, *step.returned, worker.name()}));
    }
  }

  void set_coverage(Stage stage, Reason reason, std::string detail, UnixNs now,
                    std::vector<Observation>& out) {
    if (coverage_.stage == stage && coverage_.reason == reason && coverage_.detail == detail)
      return;
    coverage_.stage = stage;
    coverage_.reason = reason;
    coverage_.detail = std::move(detail);
    coverage_.since = now;
    out.push_back(observation(now, CoverageChange{coverage_}));
  }

  void step_enumerator(UnixNs now, std::vector<Observation>& out) {
    const std::int64_t mono = mono_now_ns();
    if (look_again_at_ && !look_again(mono)) return;
    const vendor::Worker::Step step = enumerator_->step(mono);
    report_blocking(*enumerator_, step, now, out);
    if (step.blocked) {
      set_coverage(Stage::kDormant, Reason::kVendorCallBlocked,
                   "NVML: the call that enumerates the devices does not return", now, out);
    }
    if (!step.answer) {
      enumerator_->ask(vendor::Ask::kEnumerate, mono);  // does nothing while one is outstanding
      return;
    }
    const std::string detail = "NVML: " + printable(vendor::take(step.answer->detail));
    switch (step.answer->status) {
      case vendor::Status::kOk:
        adopt(*step.answer, now, out);
        break;
      case vendor::Status::kNoLibrary:
      case vendor::Status::kNoDriver:
        set_coverage(Stage::kDormant, Reason::kNoDevice, detail, now, out);
        wait_for_devices(mono);
        break;
      case vendor::Status::kError:
        set_coverage(Stage::kDormant, Reason::kVendorError, detail, now, out);
        break;
    }
  }

  void wait_for_devices(std::int64_t mono) {
    enumerator_->kill();
    look_again_at_ = mono + kLookAgainNs;
  }

  // Whether it is time to enumerate again; then the worker was started.
  bool look_again(std::int64_t mono) {
    if (!enumerator_->all_reaped() || mono < *look_again_at_) return false;
    look_again_at_.reset();
    static_cast<void>(enumerator_->start(mono));  // what fails here is tried again by step()
    return true;
  }

  // Starts a worker for each device of an enumeration.
  void adopt(const vendor::Answer& answer, UnixNs now, std::vector<Observation>& out) {
    if (answer.device_count == 0) {
      set_coverage(Stage::kDormant, Reason::kNoDevice, "NVML: no GPU", now, out);
      wait_for_devices(mono_now_ns());
      return;
    }
    enumerator_->kill();
    retired_ = std::move(enumerator_);
    devices_.reserve(answer.device_count);
    for (std::uint32_t i = 0; i < answer.device_count; ++i) {
      const std::string uuid = printable(vendor::take(answer.devices[i].uuid));
      devices_.push_back({vendor::Worker(config_, static_cast<int>(i), uuid), Reason::kNone, ""});
      // A worker that cannot be started now is tried again later.
      static_cast<void>(devices_.back().worker.start(mono_now_ns()));
    }
    set_coverage(Stage::kFlowing, Reason::kNone,
                 fmt::format("NVML: {} devices{}", answer.device_count,
                             answer.simulated != 0 ? ", simulated" : ""),
                 now, out);
  }

  void step_device(Device* device, UnixNs now, std::vector<Observation>& out) {
    if (retired_ && retired_->all_reaped()) retired_.reset();
    const vendor::Worker::Step step = device->worker.step(mono_now_ns());
    report_blocking(device->worker, step, now, out);
    if (step.blocked) {
      set_trouble(device, Reason::kVendorCallBlocked, "a call does not return", now, out);
    }
    if (!step.answer) return;
    if (step.answer->status == vendor::Status::kOk) {
      set_trouble(device, Reason::kNone, "", now, out);
      out.push_back(
          observation(now, vendor::from_wire(step.answer->sample, step.answer->simulated != 0)));
      return;
    }
    const bool none = step.answer->status != vendor::Status::kError;
    set_trouble(device, none ? Reason::kNoDevice : Reason::kVendorError,
                printable(vendor::take(step.answer->detail)), now, out);
  }

  // Says once when a device stops to answer, and once when it answers again.
  void set_trouble(Device* device, Reason reason, const std::string& detail, UnixNs now,
                   std::vector<Observation>& out) {
    if (device->trouble == reason && device->detail == detail) return;
    device->trouble = reason;
    device->detail = detail;
    RungCoverage coverage;
    coverage.rung = Rung::kFleet;
    coverage.stage = reason == Reason::kNone ? Stage::kFlowing : Stage::kDormant;
    coverage.reason = reason;
    coverage.detail = device->worker.name() + (detail.empty() ? " answers" : ": " + detail);
    coverage.since = now;
    out.push_back(observation(now, CoverageChange{coverage}));
  }

  const VendorWorkersConfig config_;
  std::unique_ptr<vendor::Worker> enumerator_;  // null once there are devices
  std::unique_ptr<vendor::Worker> retired_;     // the enumerator that is done but not yet reaped
  std::vector<Device> devices_;
  std::optional<std::int64_t> look_again_at_;
  RungCoverage coverage_;
};

VendorWorkers::VendorWorkers(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
VendorWorkers::~VendorWorkers() { stop(); }

Result<std::unique_ptr<VendorWorkers>> VendorWorkers::start(VendorWorkersConfig config) {
  auto impl = std::make_unique<Impl>(std::move(config));
  if (auto started = impl->enumerate(); !started) return tl::unexpected(started.error());
  return std::unique_ptr<VendorWorkers>(new VendorWorkers(std::move(impl)));
}

void VendorWorkers::request_samples() { impl_->request_samples(); }
void VendorWorkers::collect(UnixNs now, std::vector<Observation>& out) { impl_->collect(now, out); }
std::vector<int> VendorWorkers::fds() const { return impl_->fds(); }
std::vector<WorkerHealth> VendorWorkers::health() const { return impl_->health(); }
const RungCoverage& VendorWorkers::coverage() const { return impl_->coverage(); }
void VendorWorkers::stop() { impl_->stop(); }

}  // namespace rung
