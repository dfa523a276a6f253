// The part of nccl.h (2.28) that the fake exports, and the memory of a communicator.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fakes/cuda/cuda_abi.h"

using ncclResult_t = int;
using ncclDataType_t = int;
using ncclRedOp_t = int;
struct ncclComm;
using ncclComm_t = ncclComm*;

struct ncclUniqueId {
  char internal[128];
};

enum : ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclInProgress = 7,
};
enum : ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };

inline constexpr std::uint64_t kNcclMagic = 0x0280028002800280;

namespace rung::sim {
class Communicator;
}

// Fields at the offsets of NCCL 2.28.9 on x86-64; the rest of the block is zero.
struct ncclComm {
  std::uint64_t startMagic;
  rung::sim::Communicator* sim;
  char gap1[1066184 - 16];
  std::uint64_t commHash;
  std::int32_t rank;
  std::int32_t nRanks;
  std::int32_t cudaDev;
  std::int32_t nvmlDev;
  char gap2[16];
  std::int64_t busId;
  char gap3[1066372 - 1066232];
  std::int32_t node;
  std::int32_t nNodes;
  std::int32_t localRank;
  std::int32_t localRanks;
  char gap4[1066480 - 1066388];
  std::uint64_t opCount;
  std::uint64_t collOpCount;
  char gap5[1069044 - 1066496];
  std::int32_t asyncResult;
  std::uint32_t* abortFlag;
  char gap6[1069312 - 1069056];
  void* proxyState;
  char gap7[1075672 - 1069320];
  std::int32_t initState;
  char finalizeCalled;
  char gap8[1075728 - 1075677];
  std::uint64_t seqNumber[5];
  char gap9[1082968 - 8 - 1075768];
  std::uint64_t endMagic;
};

static_assert(offsetof(ncclComm, commHash) == 1066184);
static_assert(offsetof(ncclComm, nRanks) == 1066196);
static_assert(offsetof(ncclComm, busId) == 1066184 + 40);
static_assert(offsetof(ncclComm, node) == 1066372);
static_assert(offsetof(ncclComm, opCount) == 1066480);
static_assert(offsetof(ncclComm, collOpCount) == 1066488);
static_assert(offsetof(ncclComm, asyncResult) == 1069044);
static_assert(offsetof(ncclComm, abortFlag) == 1069048);
static_assert(offsetof(ncclComm, proxyState) == 1069312);
static_assert(offsetof(ncclComm, initState) == 1075672);
static_assert(offsetof(ncclComm, seqNumber) == 1075728);
static_assert(offsetof(ncclComm, endMagic) == 1082968 - 8);
static_assert(sizeof(ncclComm) == 1082968);
