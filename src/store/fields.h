// The columns of every table, once: a visitor sees each field with its name. The schema, the
// writer and the reader are three visitors, so what is written is what is read.
//
// A visitor offers operator()(name, field) for plain columns and, for fields kept in a dictionary
// table, name(), process() and communicator(); entries() is the packed batch of collectives.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "model/observation.h"
#include "model/verdict.h"

namespace rung::store {

template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

// How many values an enumeration has; larger numbers in a file are not known to this version.
template <class E>
constexpr int kValuesOf = 0;
template <>
inline constexpr int kValuesOf<Source> = 6;
template <>
inline constexpr int kValuesOf<Rung> = 8;
template <>
inline constexpr int kValuesOf<Stage> = 10;
template <>
inline constexpr int kValuesOf<Reason> = 17;
template <>
inline constexpr int kValuesOf<LibraryKind> = 5;
template <>
inline constexpr int kValuesOf<ProcessState> = 6;
template <>
inline constexpr int kValuesOf<CommEvent::What> = 5;
template <>
inline constexpr int kValuesOf<CommId::Source> = 4;
template <>
inline constexpr int kValuesOf<HealthEvent::Kind> = 6;
template <>
inline constexpr int kValuesOf<CallClass> = RUNG_CALL_CLASSES;
template <>
inline constexpr int kValuesOf<CollectiveOp> = RUNG_OP_RECV + 1;
template <>
inline constexpr int kValuesOf<Severity> = 3;
template <>
inline constexpr int kValuesOf<Confidence> = 3;

// --- dictionaries: a value that repeats is stored once and named by its id ---

struct Name {
  std::string text;
  friend auto operator<=>(const Name&, const Name&) = default;
};
void fields(auto& v, Is<Name> auto& n) { v("text", n.text); }

void fields(auto& v, Is<ProcessKey> auto& p) {
  v("boot", p.boot);
  v("pid", p.pid);
  v("start_ticks", p.start_ticks);
}

void fields(auto& v, Is<CommRef> auto& c) {
  v("pointer", c.pointer);
  v("hash", c.id.hash);
  v("identified_by", c.id.source);
  v("size", c.size);
  v("rank", c.rank);
}

void fields(auto& v, Is<CollectiveSignature> auto& s) {
  v("op", s.op);
  v("datatype", s.datatype);
  v("reduction", s.reduction);
  v("root_or_peer", s.root_or_peer);
  v("count", s.count);
}

struct DictionaryLess {
  bool operator()(const CommRef& a, const CommRef& b) const {
    return std::tie(a.pointer, a.id, a.size, a.rank) < std::tie(b.pointer, b.id, b.size, b.rank);
  }
  template <class T>
  bool operator()(const T& a, const T& b) const {
    return a < b;
  }
};

// --- observations ---

void fields(auto& v, Is<Origin> auto& o) {
  v("source", o.source);
  v("rung", o.rung);
  v.process("process", o.process);
  v("at_unix_ns", o.at);
  v("lost_before", o.lost_before);
}

void fields(auto& v, Is<ProcessIdentity> auto& p) {
  v("job", p.job.text);
  v("attempt", p.attempt);
  v("rank", p.rank);
  v("world_size", p.world_size);
  v("local_rank", p.local_rank);
  v("host", p.host);
  v("uid", p.uid);
  v("executable", p.executable);
  v("label", p.label);
  v.process("launcher", p.launcher);
  v("device_uuid", p.device);
  v("simulated", p.simulated);
  v("conflict", p.conflict);
}

void fields(auto& v, Is<LibraryFingerprint> auto& l) {
  v("kind", l.kind);
  v("path", l.path);
  v("build_id", l.build_id);
  v("version", l.version);
}

void fields(auto& v, Is<ProcessSample> auto& s) {
  v("state", s.state);
  v("threads", s.threads);
  v("threads_disk_sleep", s.threads_disk_sleep);
  v("cpu_ns", s.cpu_ns);
  v("read_bytes", s.read_bytes);
  v("written_bytes", s.written_bytes);
  v("read_chars", s.read_chars);
  v("written_chars", s.written_chars);
  v("resident_bytes", s.resident_bytes);
  v("tracer_pid", s.tracer_pid);
  v("child_compilers", s.child_compilers);
  v.name("wait_channel", s.wait_channel);
}

void fields(auto& v, Is<ProcessExit> auto& e) {
  v("exit_code", e.exit_code);
  v("signal", e.signal);
}

void fields(auto& v, Is<HostCallStats> auto& s) {
  v("launches_thinned", s.launches_thinned);
  v("launches_seen_since_unix_ns", s.launches_seen_since);
}

void fields(auto& v, Is<HostCallStats::Class> auto& c) {
  v("call", c.call);
  v("entered", c.entered);
  v("bytes", c.bytes);
}

void fields(auto& v, Is<InFlightCall> auto& c) {
  v("tid", c.tid);
  v("call", c.call);
  v.name("function", c.function);
  v("entered_unix_ns", c.entered);
  v("calls_so_far", c.calls_so_far);
  v("thread_state", c.thread_state);
}

void fields(auto& v, Is<CommEvent> auto& e) {
  v("what", e.what);
  v.communicator("communicator", e.comm);
}

void fields(auto& v, Is<CollectiveBatch> auto& b) {
  v.communicator("communicator", b.comm);
  v("first_index", b.first_index);
  v("captured", b.captured);
  v.entries(b.entries);
}

void fields(auto& v, Is<PointToPointStats> auto& p) {
  v.communicator("communicator", p.comm);
  v("since_init", p.since_init);
}

void fields(auto& v, Is<PointToPointStats::Peer> auto& p) {
  v("peer", p.peer);
  v("sends", p.sends);
  v("receives", p.receives);
  v("last_unix_ns", p.last);
}

void fields(auto& v, Is<DeviceSample> auto& d) {
  v.name("uuid", d.device.uuid);
  v("device_index", d.index);
  v.name("model", d.name);
  v("utilization_percent", d.utilization_percent);
  v("memory_used_bytes", d.memory_used_bytes);
  v("memory_total_bytes", d.memory_total_bytes);
  v("power_watts", d.power_watts);
  v("sm_clock_mhz", d.sm_clock_mhz);
  v("memory_clock_mhz", d.memory_clock_mhz);
  v("temperature_celsius", d.temperature_celsius);
  v("clock_event_reasons", d.clock_event_reasons);
  v("sm_active_percent", d.sm_active_percent);
  v("sm_occupancy_percent", d.sm_occupancy_percent);
  v("tensor_active_percent", d.tensor_active_percent);
  v("dram_active_percent", d.dram_active_percent);
  v("nvlink_tx_kib", d.nvlink_tx_kib);
  v("nvlink_rx_kib", d.nvlink_rx_kib);
  v("simulated", d.simulated);
}

// A compute process of a device sample.
void fields(auto& v, Is<std::int32_t> auto& pid) { v("pid", pid); }

void fields(auto& v, Is<CoverageChange> auto& c) {
  v("of_rung", c.coverage.rung);
  v("stage", c.coverage.stage);
  v("reason", c.coverage.reason);
  v("detail", c.coverage.detail);
  v("since_unix_ns", c.coverage.since);
  v("lost", c.coverage.lost);
}

void fields(auto& v, Is<HealthEvent> auto& h) {
  v("kind", h.kind);
  v("value", h.value);
  v("what", h.what);
}

void fields(auto& v, Is<CpuPlace> auto& c) {
  v("samples", c.samples);
  v("in_cuda", c.in_cuda);
  v("window_ns", c.window);
}

void fields(auto& v, Is<Verdict> auto& f) {
  v("kind", f.kind);
  v("severity", f.severity);
  v("confidence", f.confidence);
  v("job", f.job.text);
  v("attempt", f.attempt);
  v("ranks", f.ranks);
  v("waiting", f.waiting);
  v("unobserved", f.unobserved);
  v("since_ns", f.since);
  v("detected_ns", f.detected);
  v("summary", f.summary);
}

// --- tables ---

template <class T>
constexpr const char* kTable = nullptr;
template <>
inline constexpr const char* kTable<Name> = "name";
template <>
inline constexpr const char* kTable<ProcessKey> = "process";
template <>
inline constexpr const char* kTable<CommRef> = "communicator";
template <>
inline constexpr const char* kTable<CollectiveSignature> = "signature";
template <>
inline constexpr const char* kTable<ProcessIdentity> = "process_identity";
template <>
inline constexpr const char* kTable<LibraryFingerprint> = "library";
template <>
inline constexpr const char* kTable<ProcessSample> = "process_sample";
template <>
inline constexpr const char* kTable<ProcessExit> = "process_exit";
template <>
inline constexpr const char* kTable<HostCallStats> = "host_call_stats";
template <>
inline constexpr const char* kTable<HostCallStats::Class> = "host_call_class";
template <>
inline constexpr const char* kTable<InFlightCall> = "thread_call";
template <>
inline constexpr const char* kTable<CommEvent> = "comm_event";
template <>
inline constexpr const char* kTable<CollectiveBatch> = "collective_batch";
template <>
inline constexpr const char* kTable<PointToPointStats> = "point_to_point";
template <>
inline constexpr const char* kTable<PointToPointStats::Peer> = "point_to_point_peer";
template <>
inline constexpr const char* kTable<DeviceSample> = "device_sample";
template <>
inline constexpr const char* kTable<std::int32_t> = "device_process";
template <>
inline constexpr const char* kTable<CoverageChange> = "coverage";
template <>
inline constexpr const char* kTable<HealthEvent> = "health_event";
template <>
inline constexpr const char* kTable<CpuPlace> = "cpu_place";
template <>
inline constexpr const char* kTable<Verdict> = "verdict";

// The rows of a second table that belong to an observation, or nullptr.
struct NoChildren {};
template <class T>
auto* children_of(T& observation) {
  using U = std::remove_const_t<T>;
  if constexpr (std::same_as<U, ProcessIdentity>) {
    return &observation.libraries;
  } else if constexpr (std::same_as<U, HostCallStats>) {
    return &observation.classes;
  } else if constexpr (std::same_as<U, PointToPointStats>) {
    return &observation.peers;
  } else if constexpr (std::same_as<U, DeviceSample>) {
    return &observation.compute_pids;
  } else {
    return static_cast<NoChildren*>(nullptr);
  }
}
template <class T>
inline constexpr bool kHasChildren =
    !std::same_as<decltype(children_of(std::declval<T&>())), NoChildren*>;
template <class T>
using ChildOf =
    typename std::remove_pointer_t<decltype(children_of(std::declval<T&>()))>::value_type;

// Calls f.template operator()<T>() for each alternative of Evidence, in order.
template <class F, std::size_t... I>
void for_each_evidence(F&& f, std::index_sequence<I...>) {
  (f.template operator()<std::variant_alternative_t<I, Evidence>>(), ...);
}
template <class F>
void for_each_evidence(F&& f) {
  for_each_evidence(f, std::make_index_sequence<std::variant_size_v<Evidence>>());
}

}  // namespace rung::store
