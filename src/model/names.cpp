#include "model/coverage.h"
#include "model/ids.h"
#include "model/observation.h"
#include "model/time.h"
#include "model/verdict.h"

namespace rung {
namespace {

template <std::size_t N, class E>
const char* pick(const char* const (&names)[N], E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? names[index] : "unknown";
}

}  // namespace

const char* name_of(DurationKind kind) {
  constexpr const char* kNames[] = {"host_call", "queue", "device_kernel", "proxy", "end_to_end"};
  return pick(kNames, kind);
}

const char* name_of(CommId::Source source) {
  constexpr const char* kNames[] = {"unidentified", "unique_id", "memory", "plugin"};
  return pick(kNames, source);
}

const char* name_of(Rung rung) {
  constexpr const char* kNames[] = {"fleet", "host",   "state",    "ras",
                                    "nccl",  "device", "counters", "file"};
  return pick(kNames, rung);
}

const char* name_of(Stage stage) {
  constexpr const char* kNames[] = {"not_applicable", "not_requested", "requested", "loaded",
                                    "attached",       "flowing",       "yielded",   "dormant",
                                    "stale",          "refused"};
  return pick(kNames, stage);
}

const char* name_of(Reason reason) {
  constexpr const char* kNames[] = {
      "none",         "no_permission", "no_kernel_support", "no_library",
      "no_symbols",   "unknown_build", "single_stepped",    "canary_failed",
      "over_budget",  "table_full",    "no_device",         "vendor_call_blocked",
      "vendor_error", "process_gone",  "not_ours",          "foreign_architecture",
      "internal"};
  return pick(kNames, reason);
}

const char* name_of(Source source) {
  constexpr const char* kNames[] = {"procfs", "scheduler", "host_probes",
                                    "nvml",   "cpu_place", "agent"};
  return pick(kNames, source);
}

const char* name_of(LibraryKind kind) {
  constexpr const char* kNames[] = {"libcuda", "libcudart", "libnccl", "libcupti", "libtorch_cuda"};
  return pick(kNames, kind);
}

const char* name_of(ProcessState state) {
  constexpr const char* kNames[] = {"running", "sleeping", "disk_sleep",
                                    "stopped", "traced",   "zombie"};
  return pick(kNames, state);
}

const char* name_of(CommEvent::What what) {
  constexpr const char* kNames[] = {"init_entered", "init_done", "split_entered", "destroyed",
                                    "aborted"};
  return pick(kNames, what);
}

const char* name_of(HealthEvent::Kind kind) {
  constexpr const char* kNames[] = {"vendor_call_blocked", "vendor_call_returned", "records_lost",
                                    "probes_thinned",      "probes_restored",      "tick_late"};
  return pick(kNames, kind);
}

const char* name_of(Severity severity) {
  constexpr const char* kNames[] = {"info", "warning", "error"};
  return pick(kNames, severity);
}

const char* name_of(Confidence confidence) {
  constexpr const char* kNames[] = {"possible", "likely", "established"};
  return pick(kNames, confidence);
}

const char* name_of(EvidenceClass evidence) {
  constexpr const char* kNames[] = {"gpu",         "kernel_host", "in_process",
                                    "nccl_memory", "scheduler",   "peers"};
  return pick(kNames, evidence);
}

}  // namespace rung
