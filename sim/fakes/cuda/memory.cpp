// libcuda.so.1: device and pinned memory, copies and sets. Device memory is address space of this
// process, so copies are real and the content survives them.
#include <cstdlib>
#include <cstring>

#include "fakes/cuda/context.h"
#include "fakes/cuda/stream.h"

using namespace rung::sim;

namespace {

// 50 GB/s: what a PCIe 5 x16 link gives.
constexpr std::size_t kCopyBytesPerNs = 50;

CUresult copy_async(void* to, const void* from, std::size_t bytes, CUstream handle) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto op = std::make_shared<SimOp>();
  op->action = [=] {
    std::memcpy(to, from, bytes);
    return static_cast<std::int64_t>(bytes / kCopyBytesPerNs);
  };
  stream->enqueue(std::move(op));
  return CUDA_SUCCESS;
}

CUresult copy_sync(void* to, const void* from, std::size_t bytes) {
  const CUresult result = copy_async(to, from, bytes, nullptr);
  if (result == CUDA_SUCCESS) resolve(nullptr)->synchronize();
  return result;
}

void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

template <class T>
CUresult set_async(CUdeviceptr address, T value, std::size_t count, CUstream handle) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto op = std::make_shared<SimOp>();
  op->action = [=] {
    auto* first = static_cast<T*>(at(address));
    for (std::size_t i = 0; i < count; ++i) first[i] = value;
    return std::int64_t{0};
  };
  stream->enqueue(std::move(op));
  return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* address, std::size_t bytes) {
  SimContext* context = context_or_default();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *address = context->allocate(bytes);
  return *address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

}  // namespace

RUNG_SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  return allocate(address, bytes);
}

RUNG_SIM_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream) {
  return allocate(address, bytes);
}

RUNG_SIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  SimContext* context = context_or_default();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  // Like the driver, freeing waits for the work that may still use the memory.
  for (SimStream* stream : streams_of(context)) stream->synchronize();
  return context->release(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

RUNG_SIM_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto op = std::make_shared<SimOp>();
  op->action = [context = stream->context, address] {
    context->release(address);
    return std::int64_t{0};
  };
  stream->enqueue(std::move(op));
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = std::calloc(1, bytes);
  return *memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuMemFreeHost(void* memory) {
  std::free(memory);
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total) {
  const SimContext* context = context_or_default();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *free_bytes = kDeviceBytes - context->used_bytes();
  *total = kDeviceBytes;
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes,
                                              CUstream stream) {
  return copy_async(at(to), from, bytes, stream);
}

RUNG_SIM_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes,
                                              CUstream stream) {
  return copy_async(to, at(from), bytes, stream);
}

RUNG_SIM_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                                              CUstream stream) {
  return copy_async(at(to), at(from), bytes, stream);
}

RUNG_SIM_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                                       CUstream stream) {
  return copy_async(at(to), at(from), bytes, stream);
}

RUNG_SIM_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy_sync(at(to), from, bytes);
}

RUNG_SIM_EXPORT CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy_sync(to, at(from), bytes);
}

RUNG_SIM_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy_sync(at(to), at(from), bytes);
}

RUNG_SIM_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy_sync(at(to), at(from), bytes);
}

RUNG_SIM_EXPORT CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value,
                                         std::size_t count, CUstream stream) {
  return set_async(address, value, count, stream);
}

RUNG_SIM_EXPORT CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, std::size_t count,
                                          CUstream stream) {
  return set_async(address, value, count, stream);
}
