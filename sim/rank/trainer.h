// Trainer: one rank's training loop on the fakes. Data parallelism alone all-reduces gradient
// buckets on a second stream, as PyTorch's DDP does; with tensor and pipeline groups it also
// all-reduces activations and passes them between stages (all forward passes, then all backward).
#pragma once

#include <cstdint>
#include <vector>

#include "rank/faults.h"
#include "rank/vendor.h"
#include "rung_sim/runner.h"

namespace rung::sim {

class Trainer {
 public:
  // Makes the context of this device, streams and buffers. Ends the process with 1 when
  // a call fails, as every method does.
  Trainer(const Scenario& scenario, std::int32_t rank, std::int32_t device, RankFaults& faults);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Blocks until all ranks have called it.
  void connect(const ncclUniqueId& id);
  // One training step; gives its loss. Waits for the device at its end, as reading a loss does.
  double step(std::int64_t index);

 private:
  void forward(int micro_batch);
  void backward(int micro_batch);
  void reduce_gradients();
  void all_reduce_bucket(std::size_t bucket);
  void kernels(CUfunction function, int count, double share_of_step);
  void before_communication();
  void tensor_all_reduce();
  void exchange_stage(bool send, int peer_stage);

  const Scenario& scenario_;
  const std::int32_t rank_;
  RankFaults& faults_;
  const Layout layout_;
  const int stage_;
  const int micro_batches_;

  CUstream compute_ = nullptr;
  CUstream communication_ = nullptr;
  CUevent gradients_ready_ = nullptr;
  CUevent reduced_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction forward_kernel_ = nullptr;
  CUfunction backward_kernel_ = nullptr;
  CUfunction optimizer_kernel_ = nullptr;
  CUdeviceptr gradients_ = 0;
  CUdeviceptr activations_ = 0;

  ncclComm_t world_ = nullptr;
  ncclComm_t tensor_ = nullptr;  // nullptr for a group of one
  ncclComm_t pipeline_ = nullptr;
  ncclComm_t data_ = nullptr;  // the world itself when there is only data parallelism

  double slowness_ = 1;
  bool communicated_ = false;  // in this step
};

}  // namespace rung::sim
