// SimContext: a process's hold on one virtual device, and what the device's board says about it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "fabric/fabric.h"
#include "fakes/cuda/cuda_abi.h"

struct SimContext {
  explicit SimContext(int physical_device);

  // A kernel becomes resident or leaves; `compute` is false for collectives.
  void kernel_begins(bool compute);
  void kernel_ends(bool compute);
  void kernel_counted() { board_->kernels.fetch_add(1, std::memory_order_relaxed); }
  void nvlink_sent(std::uint64_t bytes) { board_->nvlink_bytes.fetch_add(bytes); }
  std::uint64_t used_bytes() const { return board_->used_bytes.load(); }

  // Address space without pages behind it until it is touched; 0 when there is none.
  CUdeviceptr allocate(std::size_t bytes);
  bool release(CUdeviceptr address);

  const int device;  // index on the node, after CUDA_VISIBLE_DEVICES
  SimStream* default_stream = nullptr;

 private:
  struct Resident {
    int depth = 0;
    rung::sim::BusySpan* span;
    void begin();
    void end();
  };

  rung::sim::DeviceProcess* board_;
  std::mutex mutex_;
  Resident any_;
  Resident compute_;
  std::map<CUdeviceptr, std::size_t> allocations_;
};

namespace rung::sim {

inline constexpr std::uint64_t kDeviceBytes = 150754820096;  // H200: 143771 MiB

// Node-wide indices of the devices that CUDA_VISIBLE_DEVICES lets this process see.
const std::vector<int>& visible_devices();
// The primary context of a visible ordinal; nullptr for a bad one. Made at first use, never freed:
// worker threads may hold it until the process ends.
SimContext* primary_context(CUdevice ordinal);
// The context of the calling thread; that of ordinal 0 when none was set.
SimContext*& current_context();
SimContext* context_or_default();

}  // namespace rung::sim
