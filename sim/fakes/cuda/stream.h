// SimStream: a FIFO of device work, served by one worker thread.
//
// Enqueueing returns at once until kQueueLimit operations wait, as a real driver runs ahead. Timed
// kernels only move the stream's device clock; the worker sleeps when the debt is worth a sleep or
// when somebody could see the difference, so tiny kernels cost no wake-up each.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "fakes/cuda/context.h"
#include "fakes/cuda/cuda_abi.h"

// One operation of a stream or node of a graph. A graph runs it many times.
struct SimOp {
  // Work of the host on behalf of the device, after all earlier work finished; gives the further
  // time in ns that the operation takes. Empty: the operation only takes duration_ns.
  std::function<std::int64_t()> action;
  std::int64_t duration_ns = 0;
  bool kernel = false;   // resident on the device, as opposed to a copy or an event
  bool compute = false;  // a kernel that is not a collective
};
using SimOpPtr = std::shared_ptr<const SimOp>;

struct SimGraph {
  std::vector<SimOpPtr> ops;
};

struct SimStream {
  static constexpr std::size_t kQueueLimit = 1024;

  // A stream with its worker. It lives until destroy() and the end of its queued work.
  static SimStream* make(SimContext* context);
  void destroy();

  // Queues the operation, or records it while a capture is on. Blocks while the queue is full.
  void enqueue(SimOpPtr op);
  void synchronize();
  bool idle() const { return completed_.load() == enqueued_.load(); }

  bool capturing() const { return capture_ != nullptr; }
  bool begin_capture();
  SimGraph* end_capture();  // the caller owns it; nullptr when there was no capture

  SimContext* const context;

 private:
  explicit SimStream(SimContext* owner) : context(owner) {}
  void serve();
  SimOpPtr next();
  void run(const SimOp& op);
  void settle();  // sleeps off the debt and tells waiters what has completed
  void begin_residence(bool compute);

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable space_;
  std::condition_variable done_;
  std::deque<SimOpPtr> queue_;
  bool closing_ = false;
  std::atomic<std::uint64_t> enqueued_{0};
  std::atomic<std::uint64_t> completed_{0};
  std::unique_ptr<SimGraph> capture_;  // used by application threads only
  std::shared_ptr<SimStream> self_;

  // Worker only.
  std::uint64_t executed_ = 0;
  std::int64_t clock_ns_ = 0;
  bool resident_ = false;
  bool resident_compute_ = false;
};

// Operations in flight share the event, so it may be destroyed while they are queued.
struct SimEvent {
  std::shared_ptr<SimEvent> self;
  std::mutex mutex;
  std::condition_variable done_changed;
  std::atomic<std::uint64_t> recorded{0};
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::int64_t> done_ns{0};

  void mark(std::uint64_t generation);
  void wait_until(std::uint64_t generation, bool spin);
};

namespace rung::sim {

// Whether host waits burn CPU, as the driver does by default (RUNG_SIM_WAITS=spin).
bool waits_spin();
// All streams of a context that were not destroyed.
std::vector<SimStream*> streams_of(SimContext* context);
// nullptr and the two special handles (1 legacy, 2 per thread) are the default stream.
SimStream* resolve(CUstream stream);

}  // namespace rung::sim
