// libnccl.so.2: the exported functions. Every ncclX is a weak alias of pncclX, as in the real
// library.
#include <sys/random.h>

#include <cstring>
#include <thread>
#include <vector>

#include "fabric/fabric.h"
#include "fakes/nccl/communicator.h"
#include "fakes/nccl/nccl_abi.h"
#include "rung_sim/identity.h"

#define SIM_NCCL(result, name, parameters)                                        \
  RUNG_SIM_EXPORT result name parameters __attribute__((weak, alias("p" #name))); \
  RUNG_SIM_EXPORT result p##name parameters

using rung::CollectiveOp;
using rung::sim::Communicator;
using rung::sim::Operation;

extern "C" {
CUresult cuCtxGetCurrent(CUcontext* context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuDeviceGetCount(int* count);
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
}

namespace {

// Tools read the version from this text in the library's read-only data.
__attribute__((used)) const char kVersionText[] = "NCCL version 2.28.9+cuda13.0 (simulated)";

// An ncclCommInitRank that waits for the end of its group.
struct PendingInit {
  std::uint64_t hash;
  int ranks;
  int rank;
  ncclComm** made;
  CUcontext context;
};

struct Group {
  int depth = 0;
  std::vector<Operation> operations;
  std::vector<PendingInit> inits;
};

Group& group() {
  thread_local Group instance;
  return instance;
}

std::uint64_t hash_of(const ncclUniqueId& id) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char byte : id.internal) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return hash == 0 ? 1 : hash;
}

// The calls of a group wait for each other, so each needs a thread of its own.
ncclResult_t run_inits(const std::vector<PendingInit>& inits) {
  constexpr int kNewCommState = ncclInProgress;
  std::vector<ncclResult_t> results(inits.size(), ncclSuccess);
  const auto run = [&](std::size_t i) {
    const PendingInit& init = inits[i];
    results[i] = Communicator::create(init.hash, init.ranks, init.rank, kNewCommState, init.made);
  };
  if (inits.size() == 1) {
    run(0);
    return results[0];
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < inits.size(); ++i) {
    threads.emplace_back([&, i] {
      cuCtxSetCurrent(inits[i].context);
      run(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const ncclResult_t result : results) {
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

// One kernel for each communicator of the group, in the order of first use.
ncclResult_t run_operations(std::vector<Operation> operations) {
  while (!operations.empty()) {
    ncclComm* comm = operations.front().comm;
    std::vector<Operation> mine;
    std::erase_if(operations, [&](const Operation& operation) {
      if (operation.comm == comm) mine.push_back(operation);
      return operation.comm == comm;
    });
    const ncclResult_t result = Communicator::launch(mine);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

void group_start() { ++group().depth; }

ncclResult_t group_end() {
  Group& mine = group();
  if (mine.depth == 0) return ncclInvalidUsage;
  if (--mine.depth > 0) return ncclSuccess;
  const std::vector<PendingInit> inits = std::move(mine.inits);
  std::vector<Operation> operations = std::move(mine.operations);
  mine = Group{};
  const ncclResult_t result = inits.empty() ? ncclSuccess : run_inits(inits);
  return result == ncclSuccess ? run_operations(std::move(operations)) : result;
}

// Adds one call to the current group, or makes a group of it.
ncclResult_t submit(const Operation& operation) {
  if (Communicator::of(operation.comm) == nullptr) return ncclInvalidArgument;
  if (operation.count == 0) return ncclSuccess;
  group_start();
  group().operations.push_back(operation);
  return group_end();
}

ncclResult_t collective(CollectiveOp op, const void* send, void* recv, std::size_t count,
                        ncclDataType_t type, ncclRedOp_t reduction, int root, ncclComm_t comm,
                        CUstream stream) {
  return submit({op, comm, stream, send, recv, count, type, reduction, root});
}

ncclResult_t point_to_point(CollectiveOp op, const void* buffer, std::size_t count,
                            ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream) {
  if (Communicator::of(comm) == nullptr || peer < 0 || peer >= comm->nRanks) {
    return ncclInvalidArgument;
  }
  return submit({op, comm, stream, buffer, nullptr, count, type, 0, peer});
}

// AlltoAll, Gather and Scatter are grouped sends and receives since 2.28, and counted as such.
template <class SendTo, class ReceiveFrom>
ncclResult_t exchange(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                      ncclComm_t comm, CUstream stream, SendTo send_to, ReceiveFrom receive_from) {
  if (Communicator::of(comm) == nullptr) return ncclInvalidArgument;
  group_start();
  for (int peer = 0; peer < comm->nRanks; ++peer) {
    if (send_to(peer)) point_to_point(RUNG_OP_SEND, send, count, type, peer, comm, stream);
    if (receive_from(peer)) {
      point_to_point(RUNG_OP_RECV, recv, count, type, peer, comm, stream);
    }
  }
  return group_end();
}

ncclResult_t init_rank(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank) {
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  group_start();
  group().inits.push_back({hash_of(id), ranks, rank, comm, context});
  return group_end();
}

}  // namespace

SIM_NCCL(ncclResult_t, ncclGetVersion, (int* version)) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = rung::sim::kNcclVersionCode;
  return ncclSuccess;
}

SIM_NCCL(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id)) {
  const auto got = ::getrandom(id->internal, sizeof id->internal, 0);
  return got == static_cast<ssize_t>(sizeof id->internal) ? ncclSuccess : ncclSystemError;
}

SIM_NCCL(ncclResult_t, ncclCommInitRank,
         (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank)) {
  return init_rank(comm, ranks, id, rank);
}

SIM_NCCL(ncclResult_t, ncclCommInitRankConfig,
         (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, void*)) {
  return init_rank(comm, ranks, id, rank);
}

SIM_NCCL(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int count, const int* devices)) {
  ncclUniqueId id{};
  const ncclResult_t got = pncclGetUniqueId(&id);
  if (got != ncclSuccess) return got;
  CUcontext before = nullptr;
  cuCtxGetCurrent(&before);
  group_start();
  for (int rank = 0; rank < count; ++rank) {
    CUcontext context = nullptr;
    cuDevicePrimaryCtxRetain(&context, devices == nullptr ? rank : devices[rank]);
    cuCtxSetCurrent(context);
    init_rank(&comms[rank], count, id, rank);
  }
  cuCtxSetCurrent(before);
  return group_end();
}

SIM_NCCL(ncclResult_t, ncclCommSplit,
         (ncclComm_t comm, int color, int key, ncclComm_t* made, void*)) {
  return Communicator::split(comm, color, key, made);
}

SIM_NCCL(ncclResult_t, ncclCommFinalize, (ncclComm_t comm)) {
  Communicator* sim = Communicator::of(comm);
  if (sim == nullptr) return ncclInvalidArgument;
  sim->drain();
  comm->finalizeCalled = 1;
  return ncclSuccess;
}

SIM_NCCL(ncclResult_t, ncclCommDestroy, (ncclComm_t comm)) {
  if (comm == nullptr) return ncclSuccess;
  if (Communicator::of(comm) == nullptr) return ncclInvalidArgument;
  Communicator::destroy(comm, false);
  return ncclSuccess;
}

SIM_NCCL(ncclResult_t, ncclCommAbort, (ncclComm_t comm)) {
  if (comm == nullptr) return ncclSuccess;
  if (Communicator::of(comm) == nullptr) return ncclInvalidArgument;
  Communicator::destroy(comm, true);
  return ncclSuccess;
}

SIM_NCCL(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* result)) {
  if (Communicator::of(comm) == nullptr) return ncclInvalidArgument;
  *result = comm->asyncResult;
  return ncclSuccess;
}

// The three accessors make one load each at a fixed displacement: tools without debug information
// read the layout from their code.
SIM_NCCL(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count)) {
  *count = comm->nRanks;
  return ncclSuccess;
}

SIM_NCCL(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank)) {
  *rank = comm->rank;
  return ncclSuccess;
}

SIM_NCCL(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device)) {
  *device = comm->cudaDev;
  return ncclSuccess;
}

SIM_NCCL(const char*, ncclGetErrorString, (ncclResult_t result)) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (simulated)";
    case ncclSystemError:
      return "unhandled system error (simulated)";
    case ncclInternalError:
      return "internal error (simulated)";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

SIM_NCCL(const char*, ncclGetLastError, (ncclComm_t)) { return ""; }

SIM_NCCL(ncclResult_t, ncclGroupStart, ()) {
  group_start();
  return ncclSuccess;
}

SIM_NCCL(ncclResult_t, ncclGroupEnd, ()) { return group_end(); }

SIM_NCCL(ncclResult_t, ncclAllReduce,
         (const void* send, void* recv, std::size_t count, ncclDataType_t type,
          ncclRedOp_t reduction, ncclComm_t comm, CUstream stream)) {
  return collective(RUNG_OP_ALL_REDUCE, send, recv, count, type, reduction, 0, comm, stream);
}

SIM_NCCL(ncclResult_t, ncclReduceScatter,
         (const void* send, void* recv, std::size_t count, ncclDataType_t type,
          ncclRedOp_t reduction, ncclComm_t comm, CUstream stream)) {
  return collective(RUNG_OP_REDUCE_SCATTER, send, recv, count, type, reduction, 0, comm, stream);
}

SIM_NCCL(ncclResult_t, ncclReduce,
         (const void* send, void* recv, std::size_t count, ncclDataType_t type,
          ncclRedOp_t reduction, int root, ncclComm_t comm, CUstream stream)) {
  return collective(RUNG_OP_REDUCE, send, recv, count, type, reduction, root, comm, stream);
}

SIM_NCCL(ncclResult_t, ncclBroadcast,
         (const void* send, void* recv, std::size_t count, ncclDataType_t type, int root,
          ncclComm_t comm, CUstream stream)) {
  return collective(RUNG_OP_BROADCAST, send, recv, count, type, 0, root, comm, stream);
}

SIM_NCCL(ncclResult_t, ncclBcast,
         (void* buffer, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
          CUstream stream)) {
  return collective(RUNG_OP_BROADCAST, buffer, buffer, count, type, 0, root, comm, stream);
}

SIM_NCCL(ncclResult_t, ncclAllGather,
         (const void* send, void* recv, std::size_t count, ncclDataType_t type, ncclComm_t comm,
          CUstream stream)) {
  return collective(RUNG_OP_ALL_GATHER, send, recv, count, type, 0, 0, comm, stream);
}

SIM_NCCL(ncclResult_t, ncclAlltoAll,
         (const void* send, void* recv, std::size_t count, ncclDataType_t type, ncclComm_t comm,
          CUstream stream)) {
  const auto everyone = [](int) { return true; };
  return exchange(send, recv, count, type, comm, stream, everyone, everyone);
}

SIM_NCCL(ncclResult_t, ncclGather,
         (const void* send, void* recv, std::size_t count, ncclDataType_t type, int root,
          ncclComm_t comm, CUstream stream)) {
  return exchange(
      send, recv, count, type, comm, stream, [&](int peer) { return peer == root; },
      [&](int) { return comm->rank == root; });
}

SIM_NCCL(ncclResult_t, ncclScatter,
         (const void* send, void* recv, std::size_t count, ncclDataType_t type, int root,
          ncclComm_t comm, CUstream stream)) {
  return exchange(
      send, recv, count, type, comm, stream, [&](int) { return comm->rank == root; },
      [&](int peer) { return peer == root; });
}

SIM_NCCL(ncclResult_t, ncclSend,
         (const void* buffer, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
          CUstream stream)) {
  return point_to_point(RUNG_OP_SEND, buffer, count, type, peer, comm, stream);
}

SIM_NCCL(ncclResult_t, ncclRecv,
         (void* buffer, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
          CUstream stream)) {
  return point_to_point(RUNG_OP_RECV, buffer, count, type, peer, comm, stream);
}

// Not part of NCCL: from the next collective on nothing completes on this communicator.
RUNG_SIM_EXPORT ncclResult_t rung_sim_wedge(ncclComm_t comm) {
  Communicator* sim = Communicator::of(comm);
  if (sim == nullptr) return ncclInvalidArgument;
  sim->wedge();
  return ncclSuccess;
}
