// Communicator: one rank's side of a communicator, and the work it puts on streams.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fakes/nccl/nccl_abi.h"
#include "fakes/nccl/shared_comm.h"
#include "vocab/collectives.h"

namespace rung::sim {

// One call of the API.
struct Operation {
  CollectiveOp op = RUNG_OP_UNKNOWN;
  ncclComm* comm = nullptr;
  CUstream stream = nullptr;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = 0;
  ncclRedOp_t reduction = ncclSum;
  int peer = 0;  // or root
};

class Communicator {
 public:
  // Allocates the block (initState "in progress"), waits for all ranks, then completes it.
  // `first_state` is the initState that a new block starts with: 7, or 3 for a split child.
  static ncclResult_t create(std::uint64_t hash, int ranks, int rank, int first_state,
                             ncclComm** made);
  // Zeroes the magic words and frees the block. With `abort` its kernels give up first, otherwise
  // they are waited for.
  static void destroy(ncclComm* comm, bool abort);
  // Blocks until all ranks of `parent` call it. *made is nullptr for a negative colour.
  static ncclResult_t split(ncclComm* parent, int color, int key, ncclComm** made);
  // nullptr unless the block is a live communicator.
  static Communicator* of(ncclComm* comm);

  // Launches the operations of one group, all of one communicator, as one kernel.
  static ncclResult_t launch(const std::vector<Operation>& operations);
  // Waits for all launched work.
  void drain();
  // Its next collective, and all later ones, are joined but never complete.
  void wedge();

 private:
  struct Plan;

  Communicator(SharedComm shared, int rank, int ranks)
      : shared_(shared), rank_(rank), ranks_(ranks) {}
  static std::int64_t run_plan(void* argument);
  static void release_plan(void* argument);
  static CUfunction kernel(const std::string& name);
  bool run_operations(const std::vector<Operation>& operations);
  bool run_collective(const Operation& operation);
  void retire();
  bool aborted() const { return aborted_.load(); }

  SharedComm shared_;
  const int rank_;
  const int ranks_;
  std::atomic<bool> aborted_{false};
  std::uint32_t splits_ = 0;
  std::mutex execution_;                    // one kernel of a communicator at a time
  std::atomic<std::uint64_t> sequence_{0};  // collectives executed
  std::mutex outstanding_mutex_;
  std::condition_variable outstanding_changed_;
  std::uint64_t outstanding_ = 0;
  std::shared_ptr<Communicator> self_;
};

}  // namespace rung::sim
