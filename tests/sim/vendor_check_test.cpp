// The fakes' ABI against the vendor's headers, where a CUDA toolkit is present at build time.
#include <gtest/gtest.h>

#if __has_include(<cuda.h>) && __has_include(<nccl.h>)
#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

namespace {

// cuda.h maps some names to newer versions by macros; these are the ones that the fake exports.
static_assert(offsetof(CUlaunchConfig, sharedMemBytes) == 24);
static_assert(offsetof(CUlaunchConfig, hStream) == 32);
static_assert(offsetof(CUlaunchConfig, attrs) == 40);
static_assert(offsetof(CUlaunchConfig, numAttrs) == 48 && sizeof(CUlaunchConfig) == 56);
static_assert(sizeof(CUuuid) == 16 && sizeof(CUdeviceptr) == 8 && sizeof(CUdevice) == 4);
static_assert(CUDA_ERROR_INVALID_VALUE == 1 && CUDA_ERROR_OUT_OF_MEMORY == 2);
static_assert(CUDA_ERROR_NO_DEVICE == 100 && CUDA_ERROR_INVALID_DEVICE == 101);
static_assert(CUDA_ERROR_INVALID_CONTEXT == 201 && CUDA_ERROR_NOT_FOUND == 500);
static_assert(CUDA_ERROR_NOT_READY == 600 && CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED == 900);
static_assert(CU_STREAM_CAPTURE_STATUS_NONE == 0 && CU_STREAM_CAPTURE_STATUS_ACTIVE == 1);
static_assert(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM == 2);

template <class F, class... Arguments>
inline constexpr bool kTakes = std::is_same_v<F, CUresult(Arguments...)>;
static_assert(kTakes<decltype(cuLaunchKernel), CUfunction, unsigned, unsigned, unsigned, unsigned,
                     unsigned, unsigned, unsigned, CUstream, void**, void**>);
static_assert(
    kTakes<decltype(cuLaunchKernelEx), const CUlaunchConfig*, CUfunction, void**, void**>);
static_assert(kTakes<decltype(cuLaunchCooperativeKernel), CUfunction, unsigned, unsigned, unsigned,
                     unsigned, unsigned, unsigned, unsigned, CUstream, void**>);
static_assert(kTakes<decltype(cuGraphLaunch), CUgraphExec, CUstream>);
static_assert(kTakes<decltype(cuGraphInstantiate), CUgraphExec*, CUgraph, unsigned long long>);
static_assert(kTakes<decltype(cuStreamBeginCapture), CUstream, CUstreamCaptureMode>);
static_assert(kTakes<decltype(cuStreamEndCapture), CUstream, CUgraph*>);
static_assert(kTakes<decltype(cuStreamIsCapturing), CUstream, CUstreamCaptureStatus*>);
static_assert(kTakes<decltype(cuStreamWaitEvent), CUstream, CUevent, unsigned>);
static_assert(kTakes<decltype(cuEventRecord), CUevent, CUstream>);
static_assert(kTakes<decltype(cuMemcpyDtoHAsync), void*, CUdeviceptr, std::size_t, CUstream>);
static_assert(kTakes<decltype(cuMemcpyAsync), CUdeviceptr, CUdeviceptr, std::size_t, CUstream>);
static_assert(kTakes<decltype(cuMemsetD32Async), CUdeviceptr, unsigned, std::size_t, CUstream>);
static_assert(kTakes<decltype(cuMemAllocAsync), CUdeviceptr*, std::size_t, CUstream>);
static_assert(kTakes<decltype(cuMemHostAlloc), void**, std::size_t, unsigned>);
static_assert(kTakes<decltype(cuModuleLoadData), CUmodule*, const void*>);

static_assert(sizeof(ncclUniqueId) == 128 && NCCL_UNIQUE_ID_BYTES == 128);
static_assert(ncclInvalidArgument == 4 && ncclInvalidUsage == 5 && ncclInProgress == 7);
static_assert(ncclSum == 0 && ncclAvg == 4 && ncclFloat32 == 7 && ncclFloat64 == 8);
static_assert(NCCL_SPLIT_NOCOLOR == -1);

template <class F, class... Arguments>
inline constexpr bool kNcclTakes = std::is_same_v<F, ncclResult_t(Arguments...)>;
static_assert(kNcclTakes<decltype(ncclAllReduce), const void*, void*, std::size_t, ncclDataType_t,
                         ncclRedOp_t, ncclComm_t, cudaStream_t>);
static_assert(kNcclTakes<decltype(ncclReduce), const void*, void*, std::size_t, ncclDataType_t,
                         ncclRedOp_t, int, ncclComm_t, cudaStream_t>);
static_assert(kNcclTakes<decltype(ncclBroadcast), const void*, void*, std::size_t, ncclDataType_t,
                         int, ncclComm_t, cudaStream_t>);
static_assert(kNcclTakes<decltype(ncclAllGather), const void*, void*, std::size_t, ncclDataType_t,
                         ncclComm_t, cudaStream_t>);
static_assert(kNcclTakes<decltype(ncclSend), const void*, std::size_t, ncclDataType_t, int,
                         ncclComm_t, cudaStream_t>);
static_assert(kNcclTakes<decltype(ncclCommInitRank), ncclComm_t*, int, ncclUniqueId, int>);
static_assert(kNcclTakes<decltype(ncclCommInitAll), ncclComm_t*, int, const int*>);
static_assert(
    kNcclTakes<decltype(ncclCommSplit), ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*>);

TEST(SimVendorAbi, AgreesWithTheToolkit) { SUCCEED() << "checked by the compiler"; }

}  // namespace
#else
TEST(SimVendorAbi, AgreesWithTheToolkit) {
  GTEST_SKIP() << "no CUDA toolkit with nccl.h at build time";
}
#endif
