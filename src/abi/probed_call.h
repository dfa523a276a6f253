// The shape of the tables of probed functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "vocab/calls.h"
#include "vocab/collectives.h"

namespace rung::abi {

// How the bytes of a call are found. Argument positions count from 0.
enum class BytesFrom : std::uint8_t {
  kNone,
  kArgument,  // argument a, times scale
  kProduct,   // argument a times argument b, times scale
  kCopy2d,    // argument a points to a CUDA_MEMCPY2D_v2: WidthInBytes at 112, Height at 120
  kCopy3d,    // argument a points to a CUDA_MEMCPY3D_v2 or _PEER_v1: 176, 184, Depth at 192
};

struct CudaCall {
  std::string_view name;
  CallClass call = RUNG_CALL_OTHER;
  BytesFrom bytes = BytesFrom::kNone;
  std::int8_t a = -1;
  std::int8_t b = -1;
  std::uint8_t scale = 1;
};

// Argument positions of an NCCL function; -1 where there is none.
struct NcclArguments {
  std::int8_t comm = -1;
  std::int8_t count = -1;
  std::int8_t datatype = -1;
  std::int8_t reduction = -1;
  std::int8_t peer = -1;  // or root
  std::int8_t stream = -1;
  std::int8_t out = -1;  // ncclComm_t* that receives the new communicator
  std::int8_t nranks = -1;
  std::int8_t rank = -1;
  std::int8_t unique_id = -1;
};

struct NcclCall {
  std::string_view name;
  CallClass call = RUNG_CALL_OTHER;
  CollectiveOp op = RUNG_OP_UNKNOWN;
  NcclArguments arguments = {};
  // The call takes a place in ncclComm::seqNumber. AlltoAll, Gather and Scatter (2.28) become
  // sends and receives and take none.
  bool numbered = false;
  // The ncclUniqueId (128 bytes) is passed by value: on x86-64 it lies first on the stack and
  // takes no register, so later positions do not count it.
  bool unique_id_by_value = false;
};

}  // namespace rung::abi
