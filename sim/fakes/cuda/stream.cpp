#include "fakes/cuda/stream.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace rung::sim;

namespace {

// Debt below which the worker goes on without sleeping: ten times a timer's usual lateness.
constexpr std::int64_t kSleepDebtNs = 500000;

struct Registry {
  std::mutex mutex;
  std::vector<SimStream*> streams;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

}  // namespace

SimStream* SimStream::make(SimContext* context) {
  const std::shared_ptr<SimStream> stream(new SimStream(context));
  stream->self_ = stream;
  {
    const std::lock_guard lock(registry().mutex);
    registry().streams.push_back(stream.get());
  }
  std::thread([stream] { stream->serve(); }).detach();
  return stream.get();
}

void SimStream::destroy() {
  {
    const std::lock_guard lock(registry().mutex);
    std::erase(registry().streams, this);
  }
  std::shared_ptr<SimStream> keep;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    keep = std::move(self_);
  }
  work_.notify_one();
}

void SimStream::enqueue(SimOpPtr op) {
  if (capture_ != nullptr) {
    capture_->ops.push_back(std::move(op));
    return;
  }
  std::unique_lock lock(mutex_);
  space_.wait(lock, [this] { return queue_.size() < kQueueLimit; });
  queue_.push_back(std::move(op));
  enqueued_.fetch_add(1);
  const bool wake = queue_.size() == 1;
  lock.unlock();
  if (wake) work_.notify_one();
}

void SimStream::synchronize() {
  const std::uint64_t target = enqueued_.load();
  if (waits_spin()) {
    while (completed_.load() < target) relax();
    return;
  }
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return completed_.load() >= target; });
}

bool SimStream::begin_capture() {
  if (capture_ != nullptr) return false;
  capture_ = std::make_unique<SimGraph>();
  return true;
}

SimGraph* SimStream::end_capture() { return capture_.release(); }

void SimStream::serve() {
  current_context() = context;
  while (const SimOpPtr op = next()) run(*op);
}

SimOpPtr SimStream::next() {
  std::unique_lock lock(mutex_);
  if (queue_.empty()) {
    lock.unlock();
    settle();
    lock.lock();
    work_.wait(lock, [this] { return !queue_.empty() || closing_; });
  }
  if (queue_.empty()) return nullptr;
  SimOpPtr op = std::move(queue_.front());
  queue_.pop_front();
  const bool was_full = queue_.size() + 1 == kQueueLimit;
  lock.unlock();
  if (was_full) space_.notify_all();
  return op;
}

void SimStream::run(const SimOp& op) {
  if (op.kernel) context->kernel_counted();
  if (op.action) {
    settle();
    if (op.kernel) begin_residence(op.compute);
    const std::int64_t more = op.action();
    clock_ns_ = monotonic_ns() + more;
  } else {
    if (op.kernel) begin_residence(op.compute);
    clock_ns_ = std::max(clock_ns_, monotonic_ns()) + op.duration_ns;
  }
  ++executed_;
  if (clock_ns_ - monotonic_ns() > kSleepDebtNs) settle();
}

void SimStream::begin_residence(bool compute) {
  if (resident_ && resident_compute_ == compute) return;
  if (resident_) context->kernel_ends(resident_compute_);
  context->kernel_begins(compute);
  resident_ = true;
  resident_compute_ = compute;
}

void SimStream::settle() {
  if (clock_ns_ > monotonic_ns()) sleep_until(clock_ns_);
  if (resident_) context->kernel_ends(resident_compute_);
  resident_ = false;
  if (completed_.load() == executed_) return;
  {
    const std::lock_guard lock(mutex_);
    completed_.store(executed_);
  }
  done_.notify_all();
}

void SimEvent::mark(std::uint64_t generation) {
  {
    const std::lock_guard lock(mutex);
    done.store(std::max(done.load(), generation));
    done_ns.store(monotonic_ns());
  }
  done_changed.notify_all();
}

void SimEvent::wait_until(std::uint64_t generation, bool spin) {
  if (spin) {
    while (done.load() < generation) relax();
    return;
  }
  std::unique_lock lock(mutex);
  done_changed.wait(lock, [&] { return done.load() >= generation; });
}

namespace rung::sim {

bool waits_spin() {
  static const bool spin = [] {
    const char* text = std::getenv("RUNG_SIM_WAITS");
    return text != nullptr && std::strcmp(text, "spin") == 0;
  }();
  return spin;
}

std::vector<SimStream*> streams_of(SimContext* context) {
  const std::lock_guard lock(registry().mutex);
  std::vector<SimStream*> found;
  std::ranges::copy_if(registry().streams, std::back_inserter(found),
                       [&](const SimStream* stream) { return stream->context == context; });
  return found;
}

SimStream* resolve(CUstream stream) {
  if (reinterpret_cast<std::uintptr_t>(stream) > 2) return stream;
  SimContext* context = context_or_default();
  return context == nullptr ? nullptr : context->default_stream;
}

}  // namespace rung::sim
