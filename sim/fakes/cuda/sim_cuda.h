// What the simulated libnccl asks of the simulated libcuda beyond the driver API: a kernel whose
// work is host code, run by the stream's worker in stream order.
#pragma once

#include "fakes/cuda/cuda_abi.h"

// Runs on the stream's worker; may block as a kernel would. Gives the time in ns that the device
// is busy after it returned.
using SimKernelRun = std::int64_t (*)(void* argument);
// Frees the argument of one launch, or of one captured node when its graph is destroyed.
using SimKernelRelease = void (*)(void* argument);

// A kernel of that name; kernelParams[0] of its launches points at the argument. Never freed.
RUNG_SIM_EXPORT CUfunction rung_sim_kernel(const char* name, SimKernelRun run,
                                           SimKernelRelease release);
// Adds to the bytes that the current device has sent over NVLink.
RUNG_SIM_EXPORT void rung_sim_nvlink_sent(std::uint64_t bytes);
