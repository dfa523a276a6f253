// libcuda.so.1: initialisation, devices, contexts, streams and events.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "fakes/cuda/context.h"
#include "fakes/cuda/sim_cuda.h"
#include "fakes/cuda/stream.h"
#include "rung_sim/identity.h"

using namespace rung::sim;

RUNG_SIM_EXPORT CUresult cuInit(unsigned) {
  return visible_devices().empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kCudaDriverVersion;
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuDeviceGetCount(int* count) {
  *count = static_cast<int>(visible_devices().size());
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= visible_devices().size()) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *device = ordinal;
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  std::snprintf(name, static_cast<std::size_t>(length), "%s", kDeviceName);
  return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid* uuid, CUdevice ordinal) {
  const auto& visible = visible_devices();
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= visible.size()) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  // The same bytes that the simulated NVML prints as "GPU-53494d00-...".
  std::memset(uuid->bytes, 0, sizeof uuid->bytes);
  std::memcpy(uuid->bytes, "SIM", 3);
  uuid->bytes[6] = 0x40;
  uuid->bytes[8] = static_cast<char>(0x80);
  const int device = visible[static_cast<std::size_t>(ordinal)];
  uuid->bytes[14] = static_cast<char>(device >> 8);
  uuid->bytes[15] = static_cast<char>(device & 0xff);
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return device_uuid(uuid, device);
}

RUNG_SIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return device_uuid(uuid, device);
}

RUNG_SIM_EXPORT CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  *bytes = kDeviceBytes;
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = primary_context(device);
  return *context == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }

RUNG_SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  current_context() = context;
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current_context();
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  const SimContext* context = context_or_default();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const auto& visible = visible_devices();
  for (std::size_t i = 0; i < visible.size(); ++i) {
    if (visible[i] == context->device) *device = static_cast<CUdevice>(i);
  }
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuCtxSynchronize() {
  SimContext* context = context_or_default();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  for (SimStream* stream : streams_of(context)) stream->synchronize();
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned) {
  SimContext* context = context_or_default();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *stream = SimStream::make(context);
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int) {
  return cuStreamCreate(stream, flags);
}

RUNG_SIM_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_VALUE;
  stream->destroy();
  return CUDA_SUCCESS;
}

static CUresult stream_synchronize(CUstream handle) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stream->capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  stream->synchronize();
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuStreamSynchronize(CUstream stream) { return stream_synchronize(stream); }

RUNG_SIM_EXPORT CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  return stream_synchronize(stream);
}

RUNG_SIM_EXPORT CUresult cuStreamQuery(CUstream handle) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return stream->idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

RUNG_SIM_EXPORT CUresult cuEventCreate(CUevent* event, unsigned) {
  const auto made = std::make_shared<SimEvent>();
  made->self = made;
  *event = made.get();
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  const std::shared_ptr<SimEvent> last = std::move(event->self);
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuEventRecord(CUevent event, CUstream handle) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto op = std::make_shared<SimOp>();
  if (stream->capturing()) {
    // Inside a graph the event only orders nodes, which a graph of one stream does by itself.
    op->action = [] { return std::int64_t{0}; };
  } else {
    const std::uint64_t generation = event->recorded.fetch_add(1) + 1;
    op->action = [event = event->self, generation] {
      event->mark(generation);
      return std::int64_t{0};
    };
  }
  stream->enqueue(std::move(op));
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuEventSynchronize(CUevent event) {
  event->wait_until(event->recorded.load(), waits_spin());
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuEventQuery(CUevent event) {
  return event->done.load() >= event->recorded.load() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

RUNG_SIM_EXPORT CUresult cuEventElapsedTime_v2(float* ms, CUevent begin, CUevent end) {
  if (begin->done.load() == 0 || end->done.load() == 0) return CUDA_ERROR_NOT_READY;
  *ms = static_cast<float>(end->done_ns.load() - begin->done_ns.load()) / 1e6f;
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::uint64_t generation = event->recorded.load();
  if (stream->capturing() || event->done.load() >= generation) return CUDA_SUCCESS;
  auto op = std::make_shared<SimOp>();
  op->action = [event = event->self, generation] {
    event->wait_until(generation, false);
    return std::int64_t{0};
  };
  stream->enqueue(std::move(op));
  return CUDA_SUCCESS;
}

// Gives the newest exported version of a function, as the driver does for a new CUDA version.
RUNG_SIM_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int,
                                             std::uint64_t flags, int* status) {
  static void* const self = [] {
    Dl_info info{};
    ::dladdr(reinterpret_cast<void*>(&cuInit), &info);
    return ::dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  constexpr std::uint64_t kPerThreadDefaultStream = 2;
  const std::string base = symbol;
  *function = nullptr;
  for (const char* version : {"_v3", "_v2", ""}) {
    if ((flags & kPerThreadDefaultStream) != 0 && *function == nullptr) {
      *function = ::dlsym(self, (base + version + "_ptsz").c_str());
    }
    if (*function == nullptr) *function = ::dlsym(self, (base + version).c_str());
  }
  if (status != nullptr) *status = *function == nullptr ? 1 : 0;
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

RUNG_SIM_EXPORT void rung_sim_nvlink_sent(std::uint64_t bytes) {
  if (SimContext* context = context_or_default()) context->nvlink_sent(bytes);
}
