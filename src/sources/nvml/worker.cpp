#include "sources/nvml/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rung::vendor {
namespace {

// Killed workers that the driver does not let go. With so many of one device no further is started
// until one of them ends.
constexpr std::size_t kMostUnreaped = 3;

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::int64_t ns(std::chrono::milliseconds duration) {
  return std::chrono::nanoseconds(duration).count();
}

}  // namespace

Worker::Worker(const VendorWorkersConfig& config, int device, std::string uuid)
    : config_(config),
      device_(device),
      uuid_(std::move(uuid)),
      backoff_ns_(ns(config.first_backoff)) {}

std::string Worker::name() const {
  if (device_ < 0) return "all";
  return uuid_.empty() ? fmt::format("GPU {}", device_)
                       : fmt::format("GPU {} ({})", device_, uuid_);
}

Result<void> Worker::start(std::int64_t now_ns) {
  auto started = WorkerProcess::start(config_.executable, config_.library, device_);
  if (!started) {
    restart_at_ = now_ns + backoff_ns_;
    return tl::unexpected(started.error());
  }
  process_ = std::move(*started);
  restart_at_.reset();
  return {};
}

void Worker::ask(Ask what, std::int64_t now_ns) {
  if (!process_ || asked_at_) return;
  Request request;
  request.ask = what;
  request.number = ++number_;
  // A send that fails means a worker that is gone, which step() will see.
  if (process_->send(request)) asked_at_ = now_ns;
}

Worker::Step Worker::step(std::int64_t now_ns) {
  Step step;
  std::erase_if(ended_, [](WorkerProcess& process) { return process.reaped(); });
  if (process_) take_answer(now_ns, &step);
  if (asked_at_) check_deadline(now_ns, &step);
  if (!process_ && restart_at_ && now_ns >= *restart_at_ && ended_.size() < kMostUnreaped) {
    ++restarts_;
    // Without a process there is a next try at restart_at_, which start() has set.
    static_cast<void>(start(now_ns));
  }
  return step;
}

void Worker::take_answer(std::int64_t now_ns, Step* step) {
  Answer answer;
  const WorkerProcess::Got got = process_->receive(&answer);
  if (got == WorkerProcess::Got::kNothing) return;
  if (got == WorkerProcess::Got::kGone) {
    end(now_ns);
    return;
  }
  if (!asked_at_ || answer.number != number_) return;
  asked_at_.reset();
  if (blocked_since_) {
    step->returned = seconds(now_ns - *blocked_since_);
    blocked_since_.reset();
  }
  if (answer.status == Status::kOk) backoff_ns_ = ns(config_.first_backoff);
  step->answer = answer;
}

void Worker::check_deadline(std::int64_t now_ns, Step* step) {
  const std::int64_t took = now_ns - *asked_at_;
  if (took >= ns(config_.deadline) && !blocked_since_) {
    blocked_since_ = *asked_at_;
    step->blocked = true;
  }
  if (took >= ns(config_.kill_after)) end(now_ns);
}

void Worker::end(std::int64_t now_ns) {
  process_->kill();
  if (!process_->reaped()) ended_.push_back(std::move(*process_));
  process_.reset();
  asked_at_.reset();
  restart_at_ = now_ns + backoff_ns_;
  backoff_ns_ = std::min(backoff_ns_ * 2, ns(config_.last_backoff));
}

void Worker::kill() {
  restart_at_.reset();
  asked_at_.reset();
  if (!process_) return;
  process_->kill();
  ended_.push_back(std::move(*process_));
  process_.reset();
}

bool Worker::all_reaped() {
  std::erase_if(ended_, [](WorkerProcess& process) { return process.reaped(); });
  return ended_.empty() && !process_;
}

WorkerHealth Worker::health(std::int64_t now_ns) const {
  WorkerHealth health;
  health.device = uuid_.empty() ? (device_ < 0 ? "all" : std::to_string(device_)) : uuid_;
  health.blocked = blocked_since_.has_value();
  if (blocked_since_) health.blocked_seconds = seconds(now_ns - *blocked_since_);
  health.restarts = restarts_;
  if (process_) {
    health.pid = process_->pid();
    health.resident_bytes = process_->resident_bytes();
  }
  return health;
}

}  // namespace rung::vendor
