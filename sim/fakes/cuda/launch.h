// Kernels and how they are put on a stream.
#pragma once

#include <string>

#include "fakes/cuda/cuda_abi.h"
#include "fakes/cuda/sim_cuda.h"

struct SimFunction {
  std::string name;
  SimKernelRun run = nullptr;  // null: the kernel only takes time
  SimKernelRelease release = nullptr;
};

namespace rung::sim {

// Puts one kernel on the stream. kernelParams[0] of a plain kernel points at its duration in ns
// (uint64_t); without parameters it takes kDefaultKernelNs.
CUresult launch(CUfunction function, CUstream stream, void** kernel_params);

inline constexpr std::int64_t kDefaultKernelNs = 5000;

}  // namespace rung::sim
