// Child processes that use the simulated libraries, as a rank would.
#pragma once

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "fakes/cuda/cuda_abi.h"
#include "fakes/nccl/nccl_abi.h"

namespace rung::sim {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "rung-sim-test-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A function of a simulated library, found as a user of the library would.
template <class F>
F* symbol(void* library, const char* name) {
  auto* found = reinterpret_cast<F*>(::dlsym(library, name));
  if (found == nullptr) {
    std::fprintf(stderr, "%s is missing\n", name);
    std::abort();
  }
  return found;
}

inline void* open_library(const char* soname) {
  void* library =
      ::dlopen((std::string(RUNG_SIM_TEST_HOME) + "/" + soname).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    std::abort();
  }
  return library;
}

// The driver API. Make it only in a child, after RUNG_SIM_DIR is set.
struct Cuda {
  void* library = open_library("libcuda.so.1");
#define RUNG_SIM_FUNCTION(name, ...) \
  CUresult (*name)(__VA_ARGS__) = symbol<CUresult(__VA_ARGS__)>(library, #name)
  RUNG_SIM_FUNCTION(cuInit, unsigned);
  RUNG_SIM_FUNCTION(cuDeviceGetCount, int*);
  RUNG_SIM_FUNCTION(cuDeviceGetUuid_v2, CUuuid*, CUdevice);
  RUNG_SIM_FUNCTION(cuDevicePrimaryCtxRetain, CUcontext*, CUdevice);
  RUNG_SIM_FUNCTION(cuCtxSetCurrent, CUcontext);
  RUNG_SIM_FUNCTION(cuCtxSynchronize, );
  RUNG_SIM_FUNCTION(cuStreamCreate, CUstream*, unsigned);
  RUNG_SIM_FUNCTION(cuStreamDestroy_v2, CUstream);
  RUNG_SIM_FUNCTION(cuStreamSynchronize, CUstream);
  RUNG_SIM_FUNCTION(cuStreamQuery, CUstream);
  RUNG_SIM_FUNCTION(cuStreamWaitEvent, CUstream, CUevent, unsigned);
  RUNG_SIM_FUNCTION(cuStreamBeginCapture_v2, CUstream, int);
  RUNG_SIM_FUNCTION(cuStreamEndCapture, CUstream, CUgraph*);
  RUNG_SIM_FUNCTION(cuGraphInstantiateWithFlags, CUgraphExec*, CUgraph, unsigned long long);
  RUNG_SIM_FUNCTION(cuGraphLaunch, CUgraphExec, CUstream);
  RUNG_SIM_FUNCTION(cuGraphExecDestroy, CUgraphExec);
  RUNG_SIM_FUNCTION(cuGraphDestroy, CUgraph);
  RUNG_SIM_FUNCTION(cuEventCreate, CUevent*, unsigned);
  RUNG_SIM_FUNCTION(cuEventDestroy_v2, CUevent);
  RUNG_SIM_FUNCTION(cuEventRecord, CUevent, CUstream);
  RUNG_SIM_FUNCTION(cuEventQuery, CUevent);
  RUNG_SIM_FUNCTION(cuEventSynchronize, CUevent);
  RUNG_SIM_FUNCTION(cuLaunchHostFunc, CUstream, void (*)(void*), void*);
  RUNG_SIM_FUNCTION(cuModuleLoadData, CUmodule*, const void*);
  RUNG_SIM_FUNCTION(cuModuleUnload, CUmodule);
  RUNG_SIM_FUNCTION(cuModuleGetFunction, CUfunction*, CUmodule, const char*);
  RUNG_SIM_FUNCTION(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                    unsigned, unsigned, CUstream, void**, void**);
  RUNG_SIM_FUNCTION(cuMemAlloc_v2, CUdeviceptr*, std::size_t);
  RUNG_SIM_FUNCTION(cuMemFree_v2, CUdeviceptr);
  RUNG_SIM_FUNCTION(cuMemGetInfo_v2, std::size_t*, std::size_t*);
  RUNG_SIM_FUNCTION(cuMemcpyHtoD_v2, CUdeviceptr, const void*, std::size_t);
  RUNG_SIM_FUNCTION(cuMemcpyDtoH_v2, void*, CUdeviceptr, std::size_t);
  RUNG_SIM_FUNCTION(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, std::size_t, CUstream);
  RUNG_SIM_FUNCTION(cuMemcpyDtoHAsync_v2, void*, CUdeviceptr, std::size_t, CUstream);
  RUNG_SIM_FUNCTION(cuMemsetD8Async, CUdeviceptr, unsigned char, std::size_t, CUstream);
  RUNG_SIM_FUNCTION(cuMemsetD32Async, CUdeviceptr, unsigned, std::size_t, CUstream);
  RUNG_SIM_FUNCTION(cuGetProcAddress_v2, const char*, void**, int, std::uint64_t, int*);

  CUfunction kernel = nullptr;
  CUstream stream = nullptr;

  // Initialised, on one device, with one stream and one kernel.
  explicit Cuda(CUdevice device = 0) {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    const bool ready = cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, device) == 0 &&
                       cuCtxSetCurrent(context) == 0 && cuStreamCreate(&stream, 0) == 0 &&
                       cuModuleLoadData(&module, nullptr) == 0 &&
                       cuModuleGetFunction(&kernel, module, "test") == 0;
    if (!ready) std::abort();
  }
  CUresult launch(std::int64_t duration_ns) {
    void* params[] = {&duration_ns};
    return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
  }
};

struct Nccl {
  void* library = open_library("libnccl.so.2");
  RUNG_SIM_FUNCTION(ncclGetVersion, int*);
  RUNG_SIM_FUNCTION(ncclCommInitRank, ncclComm_t*, int, ncclUniqueId, int);
  RUNG_SIM_FUNCTION(ncclCommSplit, ncclComm_t, int, int, ncclComm_t*, void*);
  RUNG_SIM_FUNCTION(ncclCommDestroy, ncclComm_t);
  RUNG_SIM_FUNCTION(ncclCommAbort, ncclComm_t);
  RUNG_SIM_FUNCTION(ncclCommCount, ncclComm_t, int*);
  RUNG_SIM_FUNCTION(ncclCommUserRank, ncclComm_t, int*);
  RUNG_SIM_FUNCTION(ncclCommInitAll, ncclComm_t*, int, const int*);
  RUNG_SIM_FUNCTION(ncclGroupStart, );
  RUNG_SIM_FUNCTION(ncclGroupEnd, );
  RUNG_SIM_FUNCTION(ncclAllReduce, const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t,
                    ncclComm_t, CUstream);
  RUNG_SIM_FUNCTION(ncclAllGather, const void*, void*, std::size_t, ncclDataType_t, ncclComm_t,
                    CUstream);
  RUNG_SIM_FUNCTION(ncclAlltoAll, const void*, void*, std::size_t, ncclDataType_t, ncclComm_t,
                    CUstream);
  RUNG_SIM_FUNCTION(ncclSend, const void*, std::size_t, ncclDataType_t, int, ncclComm_t, CUstream);
  RUNG_SIM_FUNCTION(ncclRecv, void*, std::size_t, ncclDataType_t, int, ncclComm_t, CUstream);
#undef RUNG_SIM_FUNCTION

  // A communicator whose unique id is made of `tag`, so that children need not exchange one.
  ncclComm_t connect(int ranks, int rank, char tag = 'a') {
    ncclUniqueId id{};
    id.internal[0] = tag;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, ranks, id, rank) != 0) std::abort();
    return comm;
  }
};

// A forked process that runs `body` with RUNG_SIM_DIR set, and pipes in both directions.
class Child {
 public:
  // What `body` gives becomes the exit code.
  Child(const std::string& folder, const std::function<int(Child&)>& body) {
    int to_child[2], to_parent[2];
    if (::pipe(to_child) != 0 || ::pipe(to_parent) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      read_ = to_child[0];
      write_ = to_parent[1];
      ::close(to_child[1]);
      ::close(to_parent[0]);
      ::setenv("RUNG_SIM_DIR", folder.c_str(), 1);
      ::_exit(body(*this));
    }
    read_ = to_parent[0];
    write_ = to_child[1];
    ::close(to_child[0]);
    ::close(to_parent[1]);
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(read_);
    ::close(write_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Exchange of values with the other side; receive() aborts when the other side is gone.
  template <class T>
  void send(const T& value) {
    if (::write(write_, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) std::abort();
  }
  template <class T>
  T receive() {
    T value{};
    if (::read(read_, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) {
      std::fprintf(stderr, "the other side of the pipe is gone\n");
      std::abort();
    }
    return value;
  }

  // Waits for the end; the exit code, or 128 + signal.
  int join() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int read_ = -1;
  int write_ = -1;
};

}  // namespace rung::sim

// In a child: leave with the line number if the condition is false.
#define SIM_CHECK(condition)                                                        \
  do {                                                                              \
    if (!(condition)) {                                                             \
      std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                     \
    }                                                                               \
  } while (false)
