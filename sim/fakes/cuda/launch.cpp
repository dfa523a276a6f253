// libcuda.so.1: modules, kernel launches, stream capture and graphs.
#include "fakes/cuda/launch.h"

#include <memory>
#include <mutex>
#include <vector>

#include "fakes/cuda/stream.h"

using namespace rung::sim;

struct SimModule {
  std::mutex mutex;
  std::vector<std::unique_ptr<SimFunction>> functions;
};

namespace rung::sim {

CUresult launch(CUfunction function, CUstream handle, void** kernel_params) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto op = std::make_shared<SimOp>();
  op->kernel = true;
  op->compute = function->run == nullptr;
  if (function->run == nullptr) {
    op->duration_ns = kernel_params == nullptr
                          ? kDefaultKernelNs
                          : *static_cast<const std::int64_t*>(kernel_params[0]);
  } else {
    const std::shared_ptr<void> argument(*static_cast<void**>(kernel_params[0]), function->release);
    op->action = [run = function->run, argument] { return run(argument.get()); };
  }
  stream->enqueue(std::move(op));
  return CUDA_SUCCESS;
}

}  // namespace rung::sim

RUNG_SIM_EXPORT CUfunction rung_sim_kernel(const char* name, SimKernelRun run,
                                           SimKernelRelease release) {
  return new SimFunction{name, run, release};
}

RUNG_SIM_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void*) {
  *module = new SimModule;
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuModuleUnload(CUmodule module) {
  delete module;
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module,
                                             const char* name) {
  if (module == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(module->mutex);
  module->functions.push_back(std::make_unique<SimFunction>(SimFunction{name, nullptr, nullptr}));
  *function = module->functions.back().get();
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuFuncGetName(const char** name, CUfunction function) {
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned,
                                        unsigned, unsigned, unsigned, CUstream stream,
                                        void** kernel_params, void**) {
  return launch(function, stream, kernel_params);
}

RUNG_SIM_EXPORT CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned, unsigned, unsigned,
                                             unsigned, unsigned, unsigned, unsigned,
                                             CUstream stream, void** kernel_params, void**) {
  return launch(function, stream, kernel_params);
}

RUNG_SIM_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                          void** kernel_params, void**) {
  return launch(function, config->stream, kernel_params);
}

RUNG_SIM_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function,
                                               void** kernel_params, void**) {
  return launch(function, config->stream, kernel_params);
}

RUNG_SIM_EXPORT CUresult cuLaunchHostFunc(CUstream handle, void (*function)(void*), void* data) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto op = std::make_shared<SimOp>();
  op->action = [function, data] {
    function(data);
    return std::int64_t{0};
  };
  stream->enqueue(std::move(op));
  return CUDA_SUCCESS;
}

static CUresult begin_capture(CUstream handle) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return stream->begin_capture() ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

RUNG_SIM_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int) {
  return begin_capture(stream);
}

RUNG_SIM_EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int) {
  return begin_capture(stream);
}

static CUresult end_capture(CUstream handle, CUgraph* graph) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *graph = stream->end_capture();
  return *graph == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return end_capture(stream, graph);
}

RUNG_SIM_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return end_capture(stream, graph);
}

RUNG_SIM_EXPORT CUresult cuStreamIsCapturing(CUstream handle, int* status) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *status = stream->capturing() ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                                     unsigned long long) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *exec = new SimGraph(*graph);
  return CUDA_SUCCESS;
}

static CUresult graph_launch(CUgraphExec exec, CUstream handle) {
  SimStream* stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const SimOpPtr& op : exec->ops) stream->enqueue(op);
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return graph_launch(exec, stream);
}

RUNG_SIM_EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return graph_launch(exec, stream);
}

RUNG_SIM_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  delete exec;
  return CUDA_SUCCESS;
}

RUNG_SIM_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}
