#include "fakes/nccl/communicator.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "fakes/cuda/sim_cuda.h"

// Local symbols of the real library's RAS subsystem, read from outside: an array that lists the
// communicators of the process (entries may be null) and its length.
__attribute__((visibility("hidden"), used)) ncclComm** ncclComms = nullptr;
__attribute__((visibility("hidden"), used)) int nNcclComms = 0;

extern "C" {
CUresult cuCtxGetDevice(CUdevice* device);
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device);
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params,
                          void** extra);
CUresult cuStreamIsCapturing(CUstream stream, int* status);
}

namespace rung::sim {
namespace {

std::mutex& list_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

void list_add(ncclComm* comm) {
  const std::lock_guard lock(list_mutex());
  for (int i = 0; i < nNcclComms; ++i) {
    if (ncclComms[i] == nullptr) {
      ncclComms[i] = comm;
      return;
    }
  }
  constexpr int kGrowth = 32;  // as ras.cc
  const auto size = static_cast<std::size_t>(nNcclComms) + std::size_t{kGrowth};
  auto** grown = static_cast<ncclComm**>(std::calloc(size, sizeof(ncclComm*)));
  std::copy_n(ncclComms, nNcclComms, grown);
  std::free(ncclComms);
  grown[nNcclComms] = comm;
  ncclComms = grown;
  nNcclComms += kGrowth;
}

void list_remove(ncclComm* comm) {
  const std::lock_guard lock(list_mutex());
  std::replace(ncclComms, ncclComms + nNcclComms, comm, static_cast<ncclComm*>(nullptr));
}

// Index into seqNumber (enum ncclFunc); -1 for what NCCL does not count there.
int counter_index(CollectiveOp op) {
  switch (op) {
    case RUNG_OP_BROADCAST:
      return 0;
    case RUNG_OP_REDUCE:
      return 1;
    case RUNG_OP_ALL_GATHER:
      return 2;
    case RUNG_OP_REDUCE_SCATTER:
      return 3;
    case RUNG_OP_ALL_REDUCE:
      return 4;
    default:
      return -1;
  }
}

bool point_to_point(CollectiveOp op) { return op == RUNG_OP_SEND || op == RUNG_OP_RECV; }

std::size_t bytes_of(const Operation& operation) {
  return operation.count * nccl_datatype_bytes(static_cast<std::uint8_t>(operation.type));
}

std::string kernel_name(const Operation& operation, int ranks) {
  constexpr const char* kArguments = "24ncclDevKernelArgsStorageILm4096EE";
  const auto mangled = [&](const std::string& name) {
    return "_Z" + std::to_string(name.size()) + name + kArguments;
  };
  if (ranks == 1) return "oneRankReduce";
  if (point_to_point(operation.op)) return mangled("ncclDevKernel_SendRecv");
  const std::string base = std::string("ncclDevKernel_") + name_of(operation.op);
  const bool reduces = operation.op == RUNG_OP_ALL_REDUCE || operation.op == RUNG_OP_REDUCE ||
                       operation.op == RUNG_OP_REDUCE_SCATTER;
  return mangled(base + (reduces ? "_Sum_f32_RING_LL" : "_RING_LL"));
}

// The first element as a number; all that this simulator reduces.
double first_element(const Operation& operation) {
  if (operation.send == nullptr || operation.count == 0) return 0;
  if (operation.type == 7) return *static_cast<const float*>(operation.send);
  if (operation.type == 8) return *static_cast<const double*>(operation.send);
  return 0;
}

void set_first_element(const Operation& operation, double value) {
  if (operation.recv == nullptr || operation.count == 0) return;
  if (operation.type == 7) *static_cast<float*>(operation.recv) = static_cast<float>(value);
  if (operation.type == 8) *static_cast<double*>(operation.recv) = value;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a ^ (b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2));
  x ^= x >> 31;
  x *= 0x7fb5d329728ea185;
  x ^= x >> 27;
  return x == 0 ? 1 : x;
}

ncclComm* make_block(std::uint64_t hash, int ranks, int rank, int first_state) {
  auto* comm = static_cast<ncclComm*>(std::calloc(1, sizeof(ncclComm)));
  if (comm == nullptr) return nullptr;
  comm->startMagic = comm->endMagic = kNcclMagic;
  comm->initState = first_state;
  comm->commHash = hash;
  comm->rank = comm->localRank = rank;
  comm->nRanks = comm->localRanks = ranks;
  comm->nNodes = 1;
  comm->abortFlag = static_cast<std::uint32_t*>(std::calloc(1, sizeof(std::uint32_t)));
  constexpr std::size_t kProxyStateBytes = 1520;
  comm->proxyState = std::calloc(1, kProxyStateBytes);
  CUdevice device = 0;
  CUuuid uuid{};
  if (cuCtxGetDevice(&device) == CUDA_SUCCESS) cuDeviceGetUuid_v2(&uuid, device);
  comm->cudaDev = device;
  comm->nvmlDev = (static_cast<unsigned char>(uuid.bytes[14]) << 8) |
                  static_cast<unsigned char>(uuid.bytes[15]);
  // (domain << 20) | (bus << 12) | (device << 4) | function; NVML reports the same addresses.
  comm->busId = std::int64_t{0x10 + comm->nvmlDev} << 12;
  return comm;
}

void free_block(ncclComm* comm) {
  std::free(comm->abortFlag);
  std::free(comm->proxyState);
  // Volatile: the words must be seen as zero from outside although the block is freed.
  static_cast<volatile std::uint64_t&>(comm->startMagic) = 0;
  static_cast<volatile std::uint64_t&>(comm->endMagic) = 0;
  std::free(comm);
}

}  // namespace

struct Communicator::Plan {
  std::shared_ptr<Communicator> comm;
  std::vector<Operation> operations;
  bool captured;  // runs at each replay, and nobody waits for it at destruction
};

ncclResult_t Communicator::create(std::uint64_t hash, int ranks, int rank, int first_state,
                                  ncclComm** made) {
  if (ranks < 1 || rank < 0 || rank >= ranks || made == nullptr) return ncclInvalidArgument;
  auto shared = SharedComm::attach(hash, static_cast<std::uint32_t>(ranks));
  if (!shared) return ncclSystemError;
  ncclComm* comm = make_block(hash, ranks, rank, first_state);
  if (comm == nullptr) return ncclSystemError;
  const std::shared_ptr<Communicator> sim(new Communicator(*shared, rank, ranks));
  sim->self_ = sim;
  comm->sim = sim.get();
  sim->shared_.join(static_cast<std::uint32_t>(rank));
  comm->initState = ncclSuccess;
  list_add(comm);
  *made = comm;
  return ncclSuccess;
}

Communicator* Communicator::of(ncclComm* comm) {
  const bool live =
      comm != nullptr && comm->startMagic == kNcclMagic && comm->endMagic == kNcclMagic;
  return live ? comm->sim : nullptr;
}

void Communicator::drain() {
  std::unique_lock lock(outstanding_mutex_);
  outstanding_changed_.wait(lock, [this] { return outstanding_ == 0; });
}

void Communicator::destroy(ncclComm* comm, bool abort) {
  Communicator* sim = comm->sim;
  if (abort) {
    *comm->abortFlag = 1;
    sim->aborted_ = true;
    sim->shared_.wake_all();
  }
  sim->drain();
  list_remove(comm);
  const std::shared_ptr<Communicator> last = std::move(sim->self_);
  free_block(comm);
}

ncclResult_t Communicator::split(ncclComm* parent, int color, int key, ncclComm** made) {
  Communicator* sim = of(parent);
  if (sim == nullptr || made == nullptr) return ncclInvalidArgument;
  if (sim->splits_ >= SharedComm::kMaxSplits) return ncclInvalidUsage;
  const std::uint32_t index = sim->splits_++;
  const auto all = sim->shared_.exchange(static_cast<std::uint32_t>(sim->rank_), index, color, key);
  *made = nullptr;
  if (color < 0) return ncclSuccess;
  std::vector<std::pair<std::int32_t, int>> members;  // key, rank in the parent
  for (int r = 0; r < sim->ranks_; ++r) {
    const auto& [their_color, their_key] = all[static_cast<std::size_t>(r)];
    if (their_color == color) members.emplace_back(their_key, r);
  }
  std::ranges::sort(members);
  const auto self = std::ranges::find(members, sim->rank_, &std::pair<std::int32_t, int>::second);
  const std::uint64_t hash =
      mix(mix(parent->commHash, index + 1), static_cast<std::uint64_t>(color) + 1);
  constexpr int kSplitChildState = 3;
  return create(hash, static_cast<int>(members.size()), static_cast<int>(self - members.begin()),
                kSplitChildState, made);
}

ncclResult_t Communicator::launch(const std::vector<Operation>& operations) {
  const Operation& first = operations.front();
  Communicator* sim = first.comm->sim;
  int capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (cuStreamIsCapturing(first.stream, &capture) != CUDA_SUCCESS) return ncclUnhandledCudaError;
  const bool captured = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  for (const Operation& operation : operations) {
    const int index = counter_index(operation.op);
    if (captured || index < 0 || sim->ranks_ == 1) continue;
    std::atomic_ref(first.comm->seqNumber[index]).fetch_add(1);
  }
  if (!captured) {
    const std::lock_guard lock(sim->outstanding_mutex_);
    ++sim->outstanding_;
  }
  const CUfunction function = kernel(kernel_name(first, sim->ranks_));
  void* plan = new Plan{sim->self_, operations, captured};
  void* params[] = {&plan};
  CUlaunchConfig config{{24, 1, 1}, {512, 1, 1}, 0, first.stream, nullptr, 0};
  return cuLaunchKernelEx(&config, function, params, nullptr) == CUDA_SUCCESS
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

CUfunction Communicator::kernel(const std::string& name) {
  static auto* const mutex = new std::mutex;
  static auto* const kernels = new std::map<std::string, CUfunction>;
  const std::lock_guard lock(*mutex);
  CUfunction& known = (*kernels)[name];
  if (known == nullptr) known = rung_sim_kernel(name.c_str(), run_plan, release_plan);
  return known;
}

bool Communicator::run_collective(const Operation& operation) {
  const std::uint64_t sequence = sequence_.load();
  const std::uint64_t signature =
      mix(mix(operation.op, bytes_of(operation)), static_cast<std::uint64_t>(operation.type));
  shared_.arrive(static_cast<std::uint32_t>(rank_), sequence, signature, first_element(operation));
  if (!shared_.wait_all(sequence, [this] { return aborted(); })) return false;
  if (operation.op == RUNG_OP_ALL_REDUCE) {
    double sum = 0;
    for (int r = 0; r < ranks_; ++r) sum += shared_.value(sequence, static_cast<std::uint32_t>(r));
    set_first_element(operation, operation.reduction == ncclAvg ? sum / ranks_ : sum);
  }
  sequence_.store(sequence + 1);
  return true;
}

bool Communicator::run_operations(const std::vector<Operation>& operations) {
  const auto rank = static_cast<std::uint32_t>(rank_);
  const std::lock_guard lock(execution_);
  std::vector<std::uint32_t> numbers;
  for (const Operation& operation : operations) {
    if (!point_to_point(operation.op)) continue;
    numbers.push_back(shared_.post(operation.op == RUNG_OP_SEND, rank,
                                   static_cast<std::uint32_t>(operation.peer)));
  }
  auto number = numbers.begin();
  for (const Operation& operation : operations) {
    const bool done = point_to_point(operation.op)
                          ? shared_.wait_peer(operation.op == RUNG_OP_SEND, rank,
                                              static_cast<std::uint32_t>(operation.peer), *number++,
                                              [this] { return aborted(); })
                          : run_collective(operation);
    if (!done) return false;
  }
  return true;
}

void Communicator::retire() {
  {
    const std::lock_guard lock(outstanding_mutex_);
    --outstanding_;
  }
  outstanding_changed_.notify_all();
}

std::int64_t Communicator::run_plan(void* argument) {
  const Plan& plan = *static_cast<Plan*>(argument);
  Communicator& self = *plan.comm;
  std::size_t bytes = 0;
  for (const Operation& operation : plan.operations) bytes += bytes_of(operation);
  const bool done = self.run_operations(plan.operations);
  if (!plan.captured) self.retire();
  // 10 us of latency and 100 GB/s.
  constexpr std::int64_t kLatencyNs = 10000;
  constexpr std::size_t kBytesPerNs = 100;
  if (done && self.ranks_ > 1) rung_sim_nvlink_sent(bytes);
  return kLatencyNs + static_cast<std::int64_t>(bytes / kBytesPerNs);
}

void Communicator::release_plan(void* argument) { delete static_cast<Plan*>(argument); }

void Communicator::wedge() { shared_.wedge(sequence_.load()); }

}  // namespace rung::sim
