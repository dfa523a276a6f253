// The part of the CUDA driver ABI that the fake exports (cuda.h of CUDA 13.0; checked against it in
// vendor_check.cpp where a toolkit is present).
#pragma once

#include <cstddef>
#include <cstdint>

#define RUNG_SIM_EXPORT extern "C" __attribute__((visibility("default")))

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct SimContext*;
using CUstream = struct SimStream*;
using CUevent = struct SimEvent*;
using CUfunction = struct SimFunction*;
using CUmodule = struct SimModule*;
using CUgraph = struct SimGraph*;
using CUgraphExec = struct SimGraph*;

struct CUuuid {
  char bytes[16];
};

struct CUlaunchConfig {
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared_bytes;
  CUstream stream;
  void* attributes;
  unsigned int attribute_count;
};

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
};
enum : int { CU_STREAM_CAPTURE_STATUS_NONE = 0, CU_STREAM_CAPTURE_STATUS_ACTIVE = 1 };
