#include "sources/host_probes/probe_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <host_probes.skel.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/strings.h"
#include "sources/host_probes/function_table.h"
#include "sources/host_probes/probe_link.h"

namespace rung {
namespace {

constexpr std::uint64_t kInitialPidNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO, linux/proc_ns.h
constexpr std::uint32_t kBatch = 1024;

// libbpf's last warning. It reports through one process-wide callback; loading is rare and done by
// one thread.
thread_local std::string last_words;

int keep_last_words(libbpf_print_level level, const char* format, va_list arguments) {
  if (level != LIBBPF_WARN) return 0;
  char line[512];
  const int length = std::vsnprintf(line, sizeof line, format, arguments);
  if (length > 0) {
    // The first warning names the cause; what follows are its consequences.
    if (last_words.empty()) last_words = printable(trimmed(line));
  }
  return 0;
}

tl::unexpected<Error> load_failure(int error, const char* what) {
  const std::string words = last_words.empty() ? "" : " (" + last_words + ")";
  const bool refused = error == EPERM || error == EACCES;
  return fail_errno(error, fmt::format("the eBPF programs cannot be {}{}", what, words),
                    refused ? "needs CAP_BPF and CAP_PERFMON; see rung doctor" : "see rung doctor");
}

void fill_tables(host_probes& skeleton) {
  const auto functions = function_table();
  for (std::size_t i = 0; i < functions.size(); ++i) {
    std::memcpy(&skeleton.rodata->functions[i], &functions[i].row, sizeof(rung_function));
  }
  const auto layouts = layout_table();
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    std::memcpy(&skeleton.rodata->layouts[i], &layouts[i], sizeof(rung_comm_layout));
  }
}

// In a container's pid namespace the kernel's pids are not those that /proc shows here.
void fill_namespace(host_probes& skeleton) {
  struct stat info {};
  if (stat("/proc/self/ns/pid", &info) != 0 || info.st_ino == kInitialPidNamespace) return;
  skeleton.rodata->use_namespace = 1;
  skeleton.rodata->namespace_device = info.st_dev;
  skeleton.rodata->namespace_inode = info.st_ino;
}

template <class Key, class Value>
std::vector<std::pair<Key, Value>> all_entries(int map, std::size_t bound) {
  std::vector<std::pair<Key, Value>> out;
  std::vector<Key> keys(kBatch);
  std::vector<Value> values(kBatch);
  // The kernel's cursor is a bucket number for hash maps, but at most a key long.
  std::array<std::byte, std::max(sizeof(Key), sizeof(std::uint64_t))> cursor{};
  bool first = true;
  while (out.size() < bound) {
    std::uint32_t count = kBatch;
    const int error = bpf_map_lookup_batch(map, first ? nullptr : cursor.data(), cursor.data(),
                                           keys.data(), values.data(), &count, nullptr);
    // ENOENT: the end was reached, and `count` entries came with it.
    if (error != 0 && error != -ENOENT) break;
    for (std::uint32_t i = 0; i < count; ++i) out.emplace_back(keys[i], values[i]);
    if (error != 0) break;
    first = false;
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<ProbePrograms>> ProbePrograms::load(const Options& options) {
  libbpf_set_print(keep_last_words);
  last_words.clear();
  std::unique_ptr<ProbePrograms> programs(new ProbePrograms);
  programs->skeleton_ = host_probes__open();
  if (programs->skeleton_ == nullptr) return load_failure(errno, "opened");
  host_probes& skeleton = *programs->skeleton_;
  fill_tables(skeleton);
  fill_namespace(skeleton);
  skeleton.rodata->ring_wake_bytes = options.ring_bytes / 2;
  bpf_map__set_max_entries(skeleton.maps.ring, static_cast<std::uint32_t>(options.ring_bytes));
  if (options.multi) {
    const auto type = static_cast<bpf_attach_type>(kTraceUprobeMulti);
    bpf_program__set_expected_attach_type(skeleton.progs.on_cuda, type);
    bpf_program__set_expected_attach_type(skeleton.progs.on_nccl, type);
  }
  const int error = host_probes__load(&skeleton);
  if (error != 0) return load_failure(-error, "loaded");
  programs->ring_ =
      ring_buffer__new(bpf_map__fd(skeleton.maps.ring), on_event, programs.get(), nullptr);
  if (programs->ring_ == nullptr) return load_failure(errno, "given an event ring");
  programs->cpus_ = static_cast<std::size_t>(std::max(libbpf_num_possible_cpus(), 1));
  return programs;
}

ProbePrograms::~ProbePrograms() {
  ring_buffer__free(ring_);
  host_probes__destroy(skeleton_);
}

int ProbePrograms::cuda_program() const { return bpf_program__fd(skeleton_->progs.on_cuda); }
int ProbePrograms::nccl_program() const { return bpf_program__fd(skeleton_->progs.on_nccl); }

Result<void> ProbePrograms::attach_process_events() {
  for (const auto& [program, link] :
       {std::pair{skeleton_->progs.on_process_exit, &skeleton_->links.on_process_exit},
        std::pair{skeleton_->progs.on_process_exec, &skeleton_->links.on_process_exec}}) {
    *link = bpf_program__attach(program);
    if (*link == nullptr) return load_failure(errno, "attached to process events");
  }
  return {};
}

Result<void> ProbePrograms::set_process(std::uint32_t pid, const rung_process& process) {
  const int error =
      bpf_map_update_elem(bpf_map__fd(skeleton_->maps.processes), &pid, &process, BPF_ANY);
  if (error != 0) return fail_errno(-error, "the process table of the probes takes no entry");
  return {};
}

void ProbePrograms::erase_process(std::uint32_t pid) {
  bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.processes), &pid);
}

rung_counters ProbePrograms::counters(std::uint32_t slot) const {
  std::vector<rung_counters> each(cpus_);
  rung_counters sum{};
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.counters), &slot, each.data()) != 0) {
    return sum;
  }
  for (const rung_counters& cpu : each) {
    for (std::size_t i = 0; i < RUNG_PROBE_CLASSES; ++i) sum.entered[i] += cpu.entered[i];
    sum.bytes_copy += cpu.bytes_copy;
    sum.bytes_set += cpu.bytes_set;
    sum.bytes_alloc += cpu.bytes_alloc;
    sum.ring_lost += cpu.ring_lost;
  }
  return sum;
}

void ProbePrograms::clear_counters(std::uint32_t slot) {
  const std::vector<rung_counters> zero(cpus_);
  bpf_map_update_elem(bpf_map__fd(skeleton_->maps.counters), &slot, zero.data(), BPF_ANY);
}

std::array<std::uint64_t, RUNG_DROPS> ProbePrograms::drops() const {
  std::array<std::uint64_t, RUNG_DROPS> out{};
  std::vector<std::uint64_t> each(cpus_);
  for (std::uint32_t reason = 0; reason < RUNG_DROPS; ++reason) {
    if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.drops), &reason, each.data()) != 0) {
      continue;
    }
    for (const std::uint64_t count : each) out[reason] += count;
  }
  return out;
}

std::vector<std::pair<std::uint32_t, rung_thread>> ProbePrograms::threads() const {
  return all_entries<std::uint32_t, rung_thread>(bpf_map__fd(skeleton_->maps.threads),
                                                 RUNG_PROBE_THREADS);
}

void ProbePrograms::erase_thread(std::uint32_t tid) {
  bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.threads), &tid);
}

std::vector<std::pair<rung_peer_key, rung_peer_counts>> ProbePrograms::peers() const {
  return all_entries<rung_peer_key, rung_peer_counts>(bpf_map__fd(skeleton_->maps.peers),
                                                      RUNG_PROBE_PEERS);
}

void ProbePrograms::erase_peer(const rung_peer_key& key) {
  bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.peers), &key);
}

int ProbePrograms::on_event(void* context, void* data, std::size_t bytes) {
  const auto* programs = static_cast<ProbePrograms*>(context);
  if (programs->handler_ == nullptr || bytes < sizeof(rung_event)) return 0;
  rung_event head;
  std::memcpy(&head, data, sizeof head);
  (*programs->handler_)(head, {static_cast<const std::byte*>(data), bytes});
  return 0;
}

void ProbePrograms::consume(const EventHandler& handler) {
  handler_ = &handler;
  ring_buffer__consume(ring_);
  handler_ = nullptr;
}

int ProbePrograms::event_fd() const { return ring_buffer__epoll_fd(ring_); }

void ProbePrograms::begin_tick(std::int64_t boot_ns, std::uint64_t limit) {
  skeleton_->bss->last_drain_boot_ns = static_cast<std::uint64_t>(boot_ns);
  skeleton_->bss->exec_hint_limit = limit;
  __atomic_store_n(&skeleton_->bss->exec_hints, 0, __ATOMIC_RELAXED);
}

std::uint64_t ProbePrograms::short_lived() const {
  return __atomic_load_n(&skeleton_->bss->short_lived, __ATOMIC_RELAXED);
}

}  // namespace rung
