// Collective operations and element types, as NCCL numbers and names them (nccl.h).
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// The values are part of recordings: only ever append.
enum rung_collective_op {
  RUNG_OP_UNKNOWN = 0,
  RUNG_OP_ALL_REDUCE = 1,
  RUNG_OP_REDUCE = 2,
  RUNG_OP_BROADCAST = 3,
  RUNG_OP_ALL_GATHER = 4,
  RUNG_OP_REDUCE_SCATTER = 5,
  RUNG_OP_ALL_TO_ALL = 6,
  RUNG_OP_GATHER = 7,
  RUNG_OP_SCATTER = 8,
  RUNG_OP_SEND = 9,
  RUNG_OP_RECV = 10
};

#ifdef __cplusplus
}  // extern "C"

#include <cstddef>
#include <cstdint>

namespace rung {

using CollectiveOp = rung_collective_op;

// The name in nccl.h without its prefix: "AllReduce".
constexpr const char* name_of(CollectiveOp op) {
  switch (op) {
    case RUNG_OP_ALL_REDUCE:
      return "AllReduce";
    case RUNG_OP_REDUCE:
      return "Reduce";
    case RUNG_OP_BROADCAST:
      return "Broadcast";
    case RUNG_OP_ALL_GATHER:
      return "AllGather";
    case RUNG_OP_REDUCE_SCATTER:
      return "ReduceScatter";
    case RUNG_OP_ALL_TO_ALL:
      return "AlltoAll";
    case RUNG_OP_GATHER:
      return "Gather";
    case RUNG_OP_SCATTER:
      return "Scatter";
    case RUNG_OP_SEND:
      return "Send";
    case RUNG_OP_RECV:
      return "Recv";
    default:
      return "unknown";
  }
}

// ncclDataType_t, nccl.h: 0 int8, 1 uint8, 2 int32, 3 uint32, 4 int64, 5 uint64, 6 float16,
// 7 float32, 8 float64, 9 bfloat16, 10 float8e4m3, 11 float8e5m2.
constexpr const char* nccl_datatype_name(std::uint8_t datatype) {
  constexpr const char* kNames[] = {"int8",    "uint8",    "int32",      "uint32",
                                    "int64",   "uint64",   "float16",    "float32",
                                    "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return datatype < sizeof kNames / sizeof kNames[0] ? kNames[datatype] : "unknown";
}

// Bytes of one element; 0 for a type that is not known.
constexpr std::size_t nccl_datatype_bytes(std::uint8_t datatype) {
  constexpr std::uint8_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return datatype < sizeof kBytes ? kBytes[datatype] : 0;
}

}  // namespace rung
#endif
