#include "rank/trainer.h"

#include <bit>
#include <cstdio>
#include <cstdlib>

namespace rung::sim {
namespace {

constexpr int kForwardKernels = 8;
constexpr int kBackwardKernels = 12;
constexpr int kOptimizerKernels = 4;
// Shares of the step that a device computes; the rest is communication and launching.
constexpr double kForwardShare = 0.28;
constexpr double kBackwardShare = 0.56;
constexpr double kOptimizerShare = 0.04;
constexpr ncclDataType_t kFloat32 = 7;
// Elements of the gradient buckets. No two neighbours are equal, so that leaving one out shows.
constexpr std::size_t kBuckets[] = {1 << 20, 6 << 20, 4 << 20, 2 << 20};
constexpr std::size_t kLargestBucket = 6 << 20;
constexpr std::size_t kActivationElements = 2 << 20;

void must(int result, const char* call) {
  if (result == 0) return;
  std::fprintf(stderr, "simulated rank: %s failed with %d\n", call, result);
  std::exit(1);
}

void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// Falls with the step and differs by rank, so the average needs every rank.
float local_loss(std::int64_t step, std::int32_t rank) {
  return 4.0F / static_cast<float>(step + 1) + 0.25F * static_cast<float>(rank % 8);
}

}  // namespace

Trainer::Trainer(const Scenario& scenario, std::int32_t rank, std::int32_t ordinal,
                 RankFaults& faults)
    : scenario_(scenario),
      rank_(rank),
      faults_(faults),
      layout_(scenario.layout),
      stage_(rank / (layout_.tensor * layout_.data)),
      micro_batches_(layout_.pipeline > 1 ? 2 : 1) {
  must(cuInit(0), "cuInit");
  CUdevice device = 0;
  CUcontext context = nullptr;
  must(cuDeviceGet(&device, ordinal), "cuDeviceGet");
  must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  must(cuStreamCreate(&compute_, 1), "cuStreamCreate");
  must(cuStreamCreate(&communication_, 1), "cuStreamCreate");
  must(cuEventCreate(&gradients_ready_, 0), "cuEventCreate");
  must(cuEventCreate(&reduced_, 0), "cuEventCreate");
  must(cuModuleLoadData(&module_, nullptr), "cuModuleLoadData");
  must(cuModuleGetFunction(&forward_kernel_, module_, "simulated_forward"), "cuModuleGetFunction");
  must(cuModuleGetFunction(&backward_kernel_, module_, "simulated_backward"),
       "cuModuleGetFunction");
  must(cuModuleGetFunction(&optimizer_kernel_, module_, "simulated_optimizer"),
       "cuModuleGetFunction");
  must(cuMemAlloc_v2(&gradients_, kLargestBucket * sizeof(float)), "cuMemAlloc");
  must(cuMemAlloc_v2(&activations_, kActivationElements * sizeof(float)), "cuMemAlloc");
}

Trainer::~Trainer() {
  must(cuCtxSynchronize(), "cuCtxSynchronize");
  for (ncclComm_t comm : {tensor_, pipeline_, data_ == world_ ? nullptr : data_, world_}) {
    if (comm != nullptr) must(ncclCommDestroy(comm), "ncclCommDestroy");
  }
  cuMemFree_v2(activations_);
  cuMemFree_v2(gradients_);
  cuModuleUnload(module_);
  cuEventDestroy_v2(reduced_);
  cuEventDestroy_v2(gradients_ready_);
  cuStreamDestroy_v2(communication_);
  cuStreamDestroy_v2(compute_);
}

void Trainer::connect(const ncclUniqueId& id) {
  must(ncclCommInitRank(&world_, scenario_.world_size, id, rank_), "ncclCommInitRank");
  data_ = world_;
  if (layout_.tensor == 1 && layout_.pipeline == 1) return;
  const int t = rank_ % layout_.tensor;
  const int d = rank_ / layout_.tensor % layout_.data;
  // Each communicator has a variable of its own for as long as it lives, as in PyTorch: the address
  // given to NCCL stays meaningful.
  const auto split = [&](ncclComm_t* made, int group_size, int color, int key) {
    // NCCL_SPLIT_NOCOLOR: everybody calls it, nobody gets a communicator.
    constexpr int kNoColor = -1;
    *made = nullptr;
    must(ncclCommSplit(world_, group_size > 1 ? color : kNoColor, key, made, nullptr),
         "ncclCommSplit");
  };
  split(&tensor_, layout_.tensor, d + layout_.data * stage_, t);
  split(&pipeline_, layout_.pipeline, t + layout_.tensor * d, stage_);
  split(&data_, layout_.data, t + layout_.tensor * stage_, d);
}

double Trainer::step(std::int64_t index) {
  faults_.begin_step(index);
  slowness_ = faults_.slowness();
  communicated_ = false;
  const float loss = local_loss(index, rank_);
  must(cuMemsetD32Async(gradients_, std::bit_cast<unsigned>(loss), 1, compute_),
       "cuMemsetD32Async");
  for (int m = 0; m < micro_batches_; ++m) forward(m);
  for (int m = 0; m < micro_batches_; ++m) backward(m);
  kernels(optimizer_kernel_, kOptimizerKernels, kOptimizerShare);
  float reduced = 0;
  must(cuMemcpyDtoHAsync_v2(&reduced, gradients_, sizeof reduced, compute_), "cuMemcpyDtoHAsync");
  must(cuStreamSynchronize(compute_), "cuStreamSynchronize");
  return reduced;
}

void Trainer::kernels(CUfunction function, int count, double share_of_step) {
  const double step_ns = scenario_.step_ms * 1e6 * slowness_;
  auto duration = static_cast<std::int64_t>(step_ns * share_of_step / count);
  void* params[] = {&duration};
  for (int i = 0; i < count; ++i) {
    must(cuLaunchKernel(function, 132, 1, 1, 256, 1, 1, 0, compute_, params, nullptr),
         "cuLaunchKernel");
  }
}

void Trainer::before_communication() {
  if (communicated_) return;
  communicated_ = true;
  if (faults_.begins(Fault::Kind::kKernelNeverEnds)) {
    std::int64_t duration = faults_.endless_ns();
    void* params[] = {&duration};
    must(cuLaunchKernel(backward_kernel_, 132, 1, 1, 256, 1, 1, 0, compute_, params, nullptr),
         "cuLaunchKernel");
  }
  if (faults_.begins(Fault::Kind::kNoneCompletes)) {
    must(cuCtxSynchronize(), "cuCtxSynchronize");
    must(rung_sim_wedge(data_ == nullptr ? world_ : data_), "rung_sim_wedge");
  }
  faults_.at_collective();
}

void Trainer::tensor_all_reduce() {
  if (tensor_ == nullptr) return;
  before_communication();
  must(ncclAllReduce(at(activations_), at(activations_), kActivationElements, kFloat32, ncclSum,
                     tensor_, compute_),
       "ncclAllReduce");
}

void Trainer::exchange_stage(bool send, int peer_stage) {
  if (pipeline_ == nullptr || peer_stage < 0 || peer_stage >= layout_.pipeline) return;
  before_communication();
  const int result = send ? ncclSend(at(activations_), kActivationElements, kFloat32, peer_stage,
                                     pipeline_, compute_)
                          : ncclRecv(at(activations_), kActivationElements, kFloat32, peer_stage,
                                     pipeline_, compute_);
  must(result, send ? "ncclSend" : "ncclRecv");
}

void Trainer::forward(int) {
  exchange_stage(false, stage_ - 1);
  const int halves = tensor_ == nullptr ? 1 : 2;
  for (int half = 0; half < halves; ++half) {
    kernels(forward_kernel_, kForwardKernels / micro_batches_ / halves,
            kForwardShare / micro_batches_ / halves);
    tensor_all_reduce();
  }
  exchange_stage(true, stage_ + 1);
}

void Trainer::backward(int micro_batch) {
  exchange_stage(false, stage_ + 1);
  const bool last = micro_batch == micro_batches_ - 1;
  const int parts = static_cast<int>(std::size(kBuckets));
  for (int part = 0; part < parts; ++part) {
    kernels(backward_kernel_, kBackwardKernels / micro_batches_ / parts + 1,
            kBackwardShare / micro_batches_ / parts);
    // A bucket is complete when the last micro-batch has added its share.
    if (last) all_reduce_bucket(static_cast<std::size_t>(part));
    if (part == parts / 2) tensor_all_reduce();
  }
  exchange_stage(true, stage_ - 1);
  if (last) reduce_gradients();
}

void Trainer::all_reduce_bucket(std::size_t bucket) {
  if (data_ == nullptr) return;
  before_communication();
  constexpr std::size_t kFaultyBucket = 1;
  std::size_t count = kBuckets[bucket];
  if (bucket == kFaultyBucket && faults_.begins(Fault::Kind::kSkipCollective)) return;
  if (bucket == kFaultyBucket && faults_.begins(Fault::Kind::kCollectiveSize)) count /= 2;
  must(cuEventRecord(gradients_ready_, compute_), "cuEventRecord");
  must(cuStreamWaitEvent(communication_, gradients_ready_, 0), "cuStreamWaitEvent");
  must(ncclAllReduce(at(gradients_), at(gradients_), count, kFloat32, ncclAvg, data_,
                     communication_),
       "ncclAllReduce");
}

void Trainer::reduce_gradients() {
  must(cuEventRecord(reduced_, communication_), "cuEventRecord");
  must(cuStreamWaitEvent(compute_, reduced_, 0), "cuStreamWaitEvent");
}

}  // namespace rung::sim
