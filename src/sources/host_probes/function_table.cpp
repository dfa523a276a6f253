#include "sources/host_probes/function_table.h"

#include <cstddef>
#include <iterator>

#include "abi/call_registers.h"
#include "abi/cuda_calls.h"
#include "abi/nccl_calls.h"
#include "abi/nccl_layout.h"

namespace rung {
namespace {

static_assert(1 + std::size(abi::kCudaCalls) + std::size(abi::kNcclCalls) <= RUNG_PROBE_FUNCTIONS);
static_assert(1 + 2 * std::size(abi::kNcclLayouts) <= RUNG_PROBE_LAYOUTS);

rung_bytes_from bytes_from(abi::BytesFrom from) {
  switch (from) {
    case abi::BytesFrom::kNone:
      return RUNG_BYTES_NONE;
    case abi::BytesFrom::kArgument:
      return RUNG_BYTES_ARGUMENT;
    case abi::BytesFrom::kProduct:
      return RUNG_BYTES_PRODUCT;
    case abi::BytesFrom::kCopy2d:
      return RUNG_BYTES_COPY_2D;
    case abi::BytesFrom::kCopy3d:
      return RUNG_BYTES_COPY_3D;
  }
  return RUNG_BYTES_NONE;
}

rung_function empty_row(CallClass call) {
  rung_function row{};
  row.call_class = static_cast<std::uint8_t>(call);
  row.bytes_a = row.bytes_b = -1;
  row.comm = row.count = row.datatype = row.reduction = row.peer = -1;
  row.out = row.nranks = row.rank = row.unique_id = -1;
  return row;
}

rung_function row_of(const abi::CudaCall& call) {
  rung_function row = empty_row(call.call);
  row.bytes_from = static_cast<std::uint8_t>(bytes_from(call.bytes));
  row.bytes_a = call.a;
  row.bytes_b = call.b;
  row.scale = call.scale;
  return row;
}

rung_nccl_action action_of(const abi::NcclCall& call) {
  switch (call.call) {
    case RUNG_CALL_COLLECTIVE:
      return RUNG_NCCL_COLLECTIVE;
    case RUNG_CALL_POINT_TO_POINT:
      return RUNG_NCCL_POINT_TO_POINT;
    case RUNG_CALL_GROUP_START:
      return RUNG_NCCL_GROUP_START;
    case RUNG_CALL_GROUP_END:
      return RUNG_NCCL_GROUP_END;
    case RUNG_CALL_COMM_INIT:
      return call.arguments.unique_id >= 0 ? RUNG_NCCL_INIT : RUNG_NCCL_DERIVE;
    case RUNG_CALL_COMM_DESTROY:
      // After finalize comes destroy: one end is enough.
      return call.name == "ncclCommDestroy" ? RUNG_NCCL_DESTROY : RUNG_NCCL_NONE;
    case RUNG_CALL_COMM_ABORT:
      return RUNG_NCCL_ABORT;
    default:
      return RUNG_NCCL_NONE;
  }
}

rung_function row_of(const abi::NcclCall& call) {
  rung_function row = empty_row(call.call);
  row.op = static_cast<std::uint8_t>(call.op);
  row.action = static_cast<std::uint8_t>(action_of(call));
  row.numbered = call.numbered ? 1 : 0;
  row.comm = call.arguments.comm;
  row.count = call.arguments.count;
  row.datatype = call.arguments.datatype;
  row.reduction = call.arguments.reduction;
  row.peer = call.arguments.peer;
  row.out = call.arguments.out;
  row.nranks = call.arguments.nranks;
  row.rank = call.arguments.rank;
  row.unique_id = call.arguments.unique_id;
  row.by_value = call.unique_id_by_value ? 1 : 0;
  // Where big structs go by reference they take a register, and what follows moves by one.
  if (!RUNG_ABI_BIG_STRUCT_ON_STACK && call.unique_id_by_value) ++row.rank;
  return row;
}

std::vector<ProbedFunction> build_table() {
  std::vector<ProbedFunction> table;
  table.push_back({"canary", ProbedLibrary::kCanary, empty_row(RUNG_CALL_LAUNCH)});
  for (const abi::CudaCall& call : abi::kCudaCalls) {
    table.push_back({call.name, ProbedLibrary::kCuda, row_of(call)});
  }
  for (const abi::NcclCall& call : abi::kNcclCalls) {
    table.push_back({call.name, ProbedLibrary::kNccl, row_of(call)});
  }
  return table;
}

rung_comm_layout layout_row(const abi::NcclLayout& layout, bool numbered) {
  return {layout.size - 8,   layout.identity,    layout.sequence,
          layout.init_state, numbered ? 1u : 0u, 0};
}

}  // namespace

std::span<const ProbedFunction> function_table() {
  static const std::vector<ProbedFunction> table = build_table();
  return table;
}

bool is_launch(const ProbedFunction& function) {
  return function.row.call_class == RUNG_CALL_LAUNCH;
}

bool is_hot(const ProbedFunction& function) {
  switch (function.row.call_class) {
    case RUNG_CALL_LAUNCH:
    case RUNG_CALL_GRAPH_LAUNCH:
    case RUNG_CALL_COPY:
    case RUNG_CALL_SET:
    case RUNG_CALL_SYNC:
    case RUNG_CALL_COLLECTIVE:
    case RUNG_CALL_POINT_TO_POINT:
    case RUNG_CALL_GROUP_START:
    case RUNG_CALL_GROUP_END:
      return true;
    default:
      return false;
  }
}

std::vector<rung_comm_layout> layout_table() {
  std::vector<rung_comm_layout> table(1);
  for (const bool numbered : {true, false}) {
    for (const abi::NcclLayout& layout : abi::kNcclLayouts) {
      table.push_back(layout_row(layout, numbered && layout.numbered));
    }
  }
  return table;
}

std::uint32_t layout_number(std::string_view version, bool numbered) {
  for (std::size_t i = 0; i < std::size(abi::kNcclLayouts); ++i) {
    if (abi::kNcclLayouts[i].version != version) continue;
    const std::size_t row = 1 + i + (numbered ? 0 : std::size(abi::kNcclLayouts));
    return static_cast<std::uint32_t>(row);
  }
  return 0;
}

}  // namespace rung
