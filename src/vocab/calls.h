// What kind of host call a probed function is. Freestanding: also read by eBPF programs and fakes.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// The values are part of recordings: only ever append.
enum rung_call_class {
  RUNG_CALL_OTHER = 0,
  RUNG_CALL_LAUNCH = 1,        // one kernel
  RUNG_CALL_GRAPH_LAUNCH = 2,  // a whole CUDA graph
  RUNG_CALL_COPY = 3,          // memory copies, any direction
  RUNG_CALL_SET = 4,           // memory sets
  RUNG_CALL_SYNC = 5,          // waits for a stream, an event, a context
  RUNG_CALL_ALLOC = 6,         // device and pinned memory
  RUNG_CALL_FREE = 7,
  RUNG_CALL_MODULE = 8,           // loads code: compilation or lazy loading
  RUNG_CALL_CAPTURE_BEGIN = 9,    // stream capture begins
  RUNG_CALL_CAPTURE_END = 10,     // stream capture ends
  RUNG_CALL_COLLECTIVE = 11,      // an NCCL collective
  RUNG_CALL_POINT_TO_POINT = 12,  // ncclSend, ncclRecv
  RUNG_CALL_GROUP_START = 13,
  RUNG_CALL_GROUP_END = 14,
  RUNG_CALL_COMM_INIT = 15,     // a communicator is made (init, split, shrink)
  RUNG_CALL_COMM_DESTROY = 16,  // finalize, destroy
  RUNG_CALL_COMM_ABORT = 17,
  RUNG_CALL_CLASSES = 18
};

#ifdef __cplusplus
}  // extern "C"

namespace rung {

using CallClass = rung_call_class;

// Stable lower-case name: "launch", "graph_launch", "collective"...
constexpr const char* name_of(CallClass call) {
  switch (call) {
    case RUNG_CALL_LAUNCH:
      return "launch";
    case RUNG_CALL_GRAPH_LAUNCH:
      return "graph_launch";
    case RUNG_CALL_COPY:
      return "copy";
    case RUNG_CALL_SET:
      return "set";
    case RUNG_CALL_SYNC:
      return "sync";
    case RUNG_CALL_ALLOC:
      return "alloc";
    case RUNG_CALL_FREE:
      return "free";
    case RUNG_CALL_MODULE:
      return "module";
    case RUNG_CALL_CAPTURE_BEGIN:
      return "capture_begin";
    case RUNG_CALL_CAPTURE_END:
      return "capture_end";
    case RUNG_CALL_COLLECTIVE:
      return "collective";
    case RUNG_CALL_POINT_TO_POINT:
      return "point_to_point";
    case RUNG_CALL_GROUP_START:
      return "group_start";
    case RUNG_CALL_GROUP_END:
      return "group_end";
    case RUNG_CALL_COMM_INIT:
      return "comm_init";
    case RUNG_CALL_COMM_DESTROY:
      return "comm_destroy";
    case RUNG_CALL_COMM_ABORT:
      return "comm_abort";
    default:
      return "other";
  }
}

}  // namespace rung
#endif
