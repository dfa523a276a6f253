// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
// Host probes: entry probes on libcuda and libnccl, and the birth and death of processes.
//
// The probe programs need nothing but pt_regs: which function was hit comes from the attach
// cookie, what to read from a table that the loader fills before load.
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "abi/call_registers.h"
#include "bpf/host_probes.h"
#include "vocab/calls.h"
#include "vocab/collectives.h"

_Static_assert((int)RUNG_PROBE_CLASSES == (int)RUNG_CALL_CLASSES, "call classes");

char LICENSE[] SEC("license") = "GPL";

// The few kernel fields that are read; offsets are relocated at load.
typedef struct {
  int counter;
} atomic_t;
struct signal_struct {
  atomic_t live;
  int group_exit_code;
  unsigned int flags;
} __attribute__((preserve_access_index));
struct task_struct {
  int exit_code;
  struct task_struct* group_leader;
  struct signal_struct* signal;
  __u64 start_boottime;
} __attribute__((preserve_access_index));
struct task_struct___before_5_5 {
  __u64 real_start_time;
} __attribute__((preserve_access_index));

#define SIGNAL_GROUP_EXIT 4  // include/linux/sched/signal.h

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, RUNG_PROBE_SLOTS);
  __type(key, __u32);
  __type(value, struct rung_process);
} processes SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, RUNG_PROBE_SLOTS);
  __type(key, __u32);
  __type(value, struct rung_counters);
} counters SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, RUNG_PROBE_THREADS);
  __type(key, __u32);
  __type(value, struct rung_thread);
} threads SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, RUNG_PROBE_PEERS);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct rung_peer_key);
  __type(value, struct rung_peer_counts);
} peers SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, RUNG_DROPS);
  __type(key, __u32);
  __type(value, __u64);
} drops SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 4 << 20);
} ring SEC(".maps");

const volatile struct rung_function functions[RUNG_PROBE_FUNCTIONS] = {};
const volatile struct rung_comm_layout layouts[RUNG_PROBE_LAYOUTS] = {};
const volatile __u64 ring_wake_bytes = 2 << 20;
const volatile __u32 use_namespace = 0;
const volatile __u64 namespace_device = 0;
const volatile __u64 namespace_inode = 0;

// Written by the loader at each drain, read and counted up here.
__u64 last_drain_boot_ns = 0;
__u64 exec_hints = 0;
__u64 exec_hint_limit = 0;
__u64 short_lived = 0;

static __always_inline void drop(__u32 reason) {
  __u64* count = bpf_map_lookup_elem(&drops, &reason);
  if (count) __sync_fetch_and_add(count, 1);
}

// tgid << 32 | tid, as the agent's own pid namespace numbers them; 0 when it cannot see the task.
static __always_inline __u64 current_ids(void) {
  struct bpf_pidns_info info = {};
  if (!use_namespace) return bpf_get_current_pid_tgid();
  if (bpf_get_ns_current_pid_tgid(namespace_device, namespace_inode, &info, sizeof(info))) return 0;
  return (__u64)info.tgid << 32 | info.pid;
}

// The arguments are copied first: the verifier refuses a computed offset into the context.
struct arguments {
  __u64 registers[8];
  __u64 stack;
};

static __always_inline void load_arguments(struct arguments* out, const RUNG_ABI_REGISTERS* regs) {
  out->registers[0] = RUNG_ABI_ARGUMENT_0(regs);
  out->registers[1] = RUNG_ABI_ARGUMENT_1(regs);
  out->registers[2] = RUNG_ABI_ARGUMENT_2(regs);
  out->registers[3] = RUNG_ABI_ARGUMENT_3(regs);
  out->registers[4] = RUNG_ABI_ARGUMENT_4(regs);
  out->registers[5] = RUNG_ABI_ARGUMENT_5(regs);
#if RUNG_ABI_REGISTER_ARGUMENTS > 6
  out->registers[6] = RUNG_ABI_ARGUMENT_6(regs);
  out->registers[7] = RUNG_ABI_ARGUMENT_7(regs);
#else
  out->registers[6] = 0;
  out->registers[7] = 0;
#endif
  out->stack = RUNG_ABI_STACK_POINTER(regs) + RUNG_ABI_FIRST_STACK_OFFSET;
}

static __always_inline __u64 argument(const struct arguments* arguments, __s8 position) {
  __u64 value = 0;
  if (position < 0) return 0;
  if (position < RUNG_ABI_REGISTER_ARGUMENTS) return arguments->registers[position & 7];
  const __u64 at = arguments->stack + 8 * (__u64)(position - RUNG_ABI_REGISTER_ARGUMENTS);
  if (bpf_probe_read_user(&value, sizeof(value), (const void*)at)) drop(RUNG_DROP_UNREADABLE);
  return value;
}

struct hit {
  const volatile struct rung_function* function;
  struct rung_process* process;
  struct rung_counters* counters;
  struct rung_thread* thread;  // null when the table is full
  __u64 cookie;
  __u64 now;
  __u32 pid;
  __u32 tid;
};

static __always_inline struct rung_thread* thread_of(struct hit* hit) {
  const struct rung_process* process = hit->process;
  struct rung_thread* thread = bpf_map_lookup_elem(&threads, &hit->tid);
  if (thread && thread->slot == process->slot && thread->generation == process->generation) {
    return thread;
  }
  struct rung_thread fresh = {};
  fresh.slot = process->slot;
  fresh.generation = process->generation;
  if (bpf_map_update_elem(&threads, &hit->tid, &fresh, BPF_ANY)) {
    drop(RUNG_DROP_THREADS_FULL);
    return 0;
  }
  return bpf_map_lookup_elem(&threads, &hit->tid);
}

// Finds whose hit this is, counts it and notes it as the thread's last call. 0: not ours.
static __always_inline int enter(struct hit* hit, void* context) {
  const __u64 ids = current_ids();
  hit->pid = ids >> 32;
  hit->tid = (__u32)ids;
  hit->process = bpf_map_lookup_elem(&processes, &hit->pid);
  if (!hit->process) {
    drop(RUNG_DROP_NO_SLOT);
    return 0;
  }
  hit->cookie = bpf_get_attach_cookie(context);
  const __u32 link = hit->cookie >> 32;
  const __u32* links = hit->process->links;
  if (link != links[0] && link != links[1] && link != links[2] && link != links[3]) {
    drop(RUNG_DROP_OTHER_LINK);
    return 0;
  }
  hit->function = &functions[hit->cookie & (RUNG_PROBE_FUNCTIONS - 1)];
  const __u32 slot = hit->process->slot;
  hit->counters = bpf_map_lookup_elem(&counters, &slot);
  if (!hit->counters) return 0;
  const __u32 call_class = hit->function->call_class;
  if (call_class >= RUNG_PROBE_CLASSES) return 0;
  // Another probe may preempt this one on the same CPU, so per-CPU alone is not exact.
  __sync_fetch_and_add(&hit->counters->entered[call_class], 1);

  hit->now = bpf_ktime_get_ns();
  hit->thread = thread_of(hit);
  if (hit->thread) {
    *(volatile __u64*)&hit->thread->entered_mono_ns = hit->now;
    *(volatile __u32*)&hit->thread->function = hit->cookie & 0xffff;
    hit->thread->calls++;
  }
  return 1;
}

static __always_inline __u64 copy_bytes(const struct arguments* call,
                                        const volatile struct rung_function* function) {
  __u64 shape[3] = {0, 0, 1};
  const __u64 a = argument(call, function->bytes_a);
  switch (function->bytes_from) {
    case RUNG_BYTES_ARGUMENT:
      return a * function->scale;
    case RUNG_BYTES_PRODUCT:
      return a * argument(call, function->bytes_b) * function->scale;
    case RUNG_BYTES_COPY_2D:  // WidthInBytes, Height of cuda.h CUDA_MEMCPY2D_v2
      if (bpf_probe_read_user(shape, 16, (const void*)(a + 112))) drop(RUNG_DROP_UNREADABLE);
      return shape[0] * shape[1];
    case RUNG_BYTES_COPY_3D:  // WidthInBytes, Height, Depth of CUDA_MEMCPY3D_v2 and _PEER_v1
      if (bpf_probe_read_user(shape, 24, (const void*)(a + 176))) drop(RUNG_DROP_UNREADABLE);
      return shape[0] * shape[1] * shape[2];
  }
  return 0;
}

SEC("uprobe")
int on_cuda(RUNG_ABI_REGISTERS* regs) {
  struct hit hit = {};
  if (!enter(&hit, regs)) return 0;
  const __u32 call_class = hit.function->call_class;
  if (call_class == RUNG_CALL_CAPTURE_BEGIN && hit.thread) hit.thread->capturing = 1;
  if (call_class == RUNG_CALL_CAPTURE_END && hit.thread) hit.thread->capturing = 0;
  if (hit.function->bytes_from == RUNG_BYTES_NONE) return 0;
  struct arguments arguments;
  load_arguments(&arguments, regs);
  const __u64 bytes = copy_bytes(&arguments, hit.function);
  if (call_class == RUNG_CALL_COPY) __sync_fetch_and_add(&hit.counters->bytes_copy, bytes);
  if (call_class == RUNG_CALL_SET) __sync_fetch_and_add(&hit.counters->bytes_set, bytes);
  if (call_class == RUNG_CALL_ALLOC) __sync_fetch_and_add(&hit.counters->bytes_alloc, bytes);
  return 0;
}

static __always_inline __u64 wake_flags(void) {
  return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > ring_wake_bytes ? BPF_RB_FORCE_WAKEUP
                                                                       : BPF_RB_NO_WAKEUP;
}

static __always_inline void lost(struct hit* hit) {
  __sync_fetch_and_add(&hit->counters->ring_lost, 1);
  drop(RUNG_DROP_RING_FULL);
}

static __always_inline void fill_head(struct rung_event* head, __u32 kind, const struct hit* hit) {
  head->kind = kind;
  head->slot = hit->process->slot;
  head->generation = hit->process->generation;
  head->function = hit->cookie & 0xffff;
  head->pid = hit->pid;
  head->tid = hit->tid;
  head->mono_ns = hit->now;
}

static __always_inline const volatile struct rung_comm_layout* layout_of(const struct hit* hit) {
  return &layouts[(hit->cookie >> 16) & (RUNG_PROBE_LAYOUTS - 1)];
}

// Reads who the communicator is. 1 when both magics and the numbers are plausible.
static __always_inline int identify(const volatile struct rung_comm_layout* layout,
                                    struct rung_comm_identity* comm) {
  __u64 magic[2] = {};
  struct {
    __u64 hash;
    __s32 rank;
    __s32 size;
  } identity = {};
  comm->hash = 0;
  comm->rank = -1;
  comm->size = 0;
  if (layout->end_magic == 0 || comm->comm == 0) return 0;
  if (bpf_probe_read_user(&magic[0], 8, (const void*)comm->comm) ||
      bpf_probe_read_user(&magic[1], 8, (const void*)(comm->comm + layout->end_magic)) ||
      bpf_probe_read_user(&identity, sizeof(identity),
                          (const void*)(comm->comm + layout->identity))) {
    drop(RUNG_DROP_UNREADABLE);
    return 0;
  }
  if (magic[0] != RUNG_NCCL_MAGIC || magic[1] != RUNG_NCCL_MAGIC) return 0;
  if (identity.rank < 0 || identity.rank >= identity.size) return 0;
  comm->hash = identity.hash;
  comm->rank = identity.rank;
  comm->size = identity.size;
  return 1;
}

// How many collectives the communicator had launched: the sum of its five sequence numbers.
static __always_inline int read_base(const volatile struct rung_comm_layout* layout, __u64 comm,
                                     __u64* base) {
  __u64 sequence[5] = {};
  if (!layout->numbered) return 0;
  if (bpf_probe_read_user(sequence, sizeof(sequence), (const void*)(comm + layout->sequence))) {
    drop(RUNG_DROP_UNREADABLE);
    return 0;
  }
  *base = sequence[0] + sequence[1] + sequence[2] + sequence[3] + sequence[4];
  return 1;
}

// NCCL advances its numbers when the outermost group ends. Inside a group the base is therefore
// read once per communicator, and the position counts from there. 1 when the base is known.
static __always_inline int number_in_group(struct hit* hit,
                                           const volatile struct rung_comm_layout* layout,
                                           __u64 comm, int identified,
                                           struct rung_collective_event* event) {
  struct rung_thread* thread = hit->thread;
  if (!thread || thread->group_depth == 0) {
    return identified && read_base(layout, comm, &event->base);
  }
  event->flags |= RUNG_EVENT_IN_GROUP;
  const __u32 used = thread->group_used;
#pragma unroll
  for (__u32 i = 0; i < RUNG_PROBE_GROUP_COMMS; i++) {
    struct rung_group_comm* entry = &thread->group[i];
    if (i < used && entry->comm == comm) {
      event->base = entry->base;
      event->position = entry->count++;
      return entry->base_known;
    }
    if (i == used) {
      entry->comm = comm;
      entry->count = 1;
      entry->base = 0;
      entry->base_known = identified && read_base(layout, comm, &event->base);
      entry->base = event->base;
      thread->group_used = used + 1;
      return entry->base_known;
    }
  }
  drop(RUNG_DROP_GROUP_FULL);
  return 0;
}

static __always_inline int on_collective(const struct arguments* call, struct hit* hit) {
  const volatile struct rung_function* function = hit->function;
  const __u64 count = argument(call, function->count);
  if (count == 0) return 0;  // NCCL discards it: it has no number
  struct rung_collective_event* event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);
  if (!event) {
    lost(hit);
    return 0;
  }
  const volatile struct rung_comm_layout* layout = layout_of(hit);
  fill_head(&event->head, RUNG_EVENT_COLLECTIVE, hit);
  event->comm.comm = argument(call, function->comm);
  event->base = 0;
  event->count = count;
  event->position = 0;
  event->flags = 0;
  event->root = function->peer < 0 ? -1 : (__s32)argument(call, function->peer);
  event->datatype = (__u32)argument(call, function->datatype);
  event->reduction = function->reduction < 0 ? 0 : (__u32)argument(call, function->reduction);
  event->pad = 0;
  const int identified = identify(layout, &event->comm);
  if (identified) event->flags |= RUNG_EVENT_IDENTIFIED;
  // Captured work is launched later, by graph launches, and gets no number.
  if (hit->thread && hit->thread->capturing) {
    event->flags |= RUNG_EVENT_CAPTURED;
  } else if (function->numbered) {
    event->flags |= RUNG_EVENT_NUMBERED;
    if (number_in_group(hit, layout, event->comm.comm, identified, event)) {
      event->flags |= RUNG_EVENT_BASE;
    }
  }
  bpf_ringbuf_submit(event, wake_flags());
  return 0;
}

static __always_inline void announce_comm(struct hit* hit, __u32 kind,
                                          const struct rung_comm_identity* comm, int identified) {
  struct rung_comm_event* event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);
  if (!event) {
    lost(hit);
    return;
  }
  __builtin_memset(event, 0, sizeof(*event));
  fill_head(&event->head, kind, hit);
  event->comm = *comm;
  event->flags = identified ? RUNG_EVENT_IDENTIFIED : 0;
  bpf_ringbuf_submit(event, wake_flags());
}

static __always_inline int on_point_to_point(const struct arguments* call, struct hit* hit) {
  struct rung_comm_identity comm = {.comm = argument(call, hit->function->comm)};
  const int identified = identify(layout_of(hit), &comm);
  struct rung_peer_key key = {};
  key.comm = comm.comm;
  key.comm_hash = comm.hash;
  key.slot = hit->process->slot;
  key.generation = hit->process->generation;
  key.peer = (__s32)argument(call, hit->function->peer);
  struct rung_peer_counts* counts = bpf_map_lookup_elem(&peers, &key);
  if (!counts) {
    struct rung_peer_counts none = {};
    bpf_map_update_elem(&peers, &key, &none, BPF_NOEXIST);
    counts = bpf_map_lookup_elem(&peers, &key);
    if (!counts) {
      drop(RUNG_DROP_PEERS_FULL);
      return 0;
    }
    announce_comm(hit, RUNG_EVENT_COMM_SEEN, &comm, identified);
  }
  if (hit->function->op == RUNG_OP_SEND) {
    __sync_fetch_and_add(&counts->sends, 1);
  } else {
    __sync_fetch_and_add(&counts->receives, 1);
  }
  counts->last_mono_ns = hit->now;
  return 0;
}

static __always_inline int on_comm(const struct arguments* call, struct hit* hit) {
  const volatile struct rung_function* function = hit->function;
  struct rung_comm_event* event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);
  if (!event) {
    lost(hit);
    return 0;
  }
  __builtin_memset(event, 0, sizeof(*event));
  fill_head(&event->head, RUNG_EVENT_COMM, hit);
  event->layout = (hit->cookie >> 16) & (RUNG_PROBE_LAYOUTS - 1);
  event->comm.rank = -1;
  if (function->comm >= 0) {
    event->comm.comm = argument(call, function->comm);
    if (identify(layout_of(hit), &event->comm)) event->flags = RUNG_EVENT_IDENTIFIED;
  }
  event->out = function->out < 0 ? 0 : argument(call, function->out);
  event->nranks = function->nranks < 0 ? 0 : (__s32)argument(call, function->nranks);
  event->rank = function->rank < 0 ? -1 : (__s32)argument(call, function->rank);
  if (function->unique_id >= 0) {
    __u64 at;
    if (RUNG_ABI_BIG_STRUCT_ON_STACK && function->by_value) {
      at = call->stack;
    } else {
      at = argument(call, function->unique_id);
    }
    if (bpf_probe_read_user(event->unique_id, sizeof(event->unique_id), (const void*)at)) {
      drop(RUNG_DROP_UNREADABLE);
    } else {
      event->has_unique_id = 1;
    }
  }
  bpf_ringbuf_submit(event, wake_flags());
  return 0;
}

SEC("uprobe")
int on_nccl(RUNG_ABI_REGISTERS* regs) {
  struct hit hit = {};
  if (!enter(&hit, regs)) return 0;
  struct rung_thread* thread = hit.thread;
  struct arguments arguments;
  load_arguments(&arguments, regs);
  switch (hit.function->action) {
    case RUNG_NCCL_COLLECTIVE:
      return on_collective(&arguments, &hit);
    case RUNG_NCCL_POINT_TO_POINT:
      return on_point_to_point(&arguments, &hit);
    case RUNG_NCCL_GROUP_START:
      if (thread && thread->group_depth++ == 0) thread->group_used = 0;
      return 0;
    case RUNG_NCCL_GROUP_END:
      if (thread && thread->group_depth > 0) thread->group_depth--;
      return 0;
    case RUNG_NCCL_INIT:
    case RUNG_NCCL_DERIVE:
    case RUNG_NCCL_DESTROY:
    case RUNG_NCCL_ABORT:
      return on_comm(&arguments, &hit);
  }
  return 0;
}

static __always_inline __u64 start_boot_ns(struct task_struct* task) {
  if (bpf_core_field_exists(task->start_boottime)) return BPF_CORE_READ(task, start_boottime);
  struct task_struct___before_5_5* old = (void*)task;
  return BPF_CORE_READ(old, real_start_time);
}

static __always_inline void process_event(__u32 kind, __u64 ids, const struct rung_process* process,
                                          __s32 wait_status) {
  struct rung_process_event* event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);
  if (!event) {
    drop(RUNG_DROP_RING_FULL);
    return;
  }
  event->head.kind = kind;
  event->head.slot = process ? process->slot : RUNG_PROBE_SLOTS;
  event->head.generation = process ? process->generation : 0;
  event->head.function = 0;
  event->head.pid = ids >> 32;
  event->head.tid = (__u32)ids;
  event->head.mono_ns = bpf_ktime_get_ns();
  event->wait_status = wait_status;
  event->pad = 0;
  bpf_ringbuf_submit(event, wake_flags());
}

SEC("raw_tp/sched_process_exit")
int on_process_exit(struct bpf_raw_tracepoint_args* context) {
  struct task_struct* task = (struct task_struct*)context->args[0];
  struct signal_struct* signal = BPF_CORE_READ(task, signal);
  if (BPF_CORE_READ(signal, live.counter) != 0) return 0;  // other threads live on
  const __u64 ids = current_ids();
  const __u32 pid = ids >> 32;
  if (pid == 0) return 0;
  struct rung_process* process = bpf_map_lookup_elem(&processes, &pid);
  if (!process) {
    struct task_struct* leader = BPF_CORE_READ(task, group_leader);
    if (start_boot_ns(leader) > last_drain_boot_ns) __sync_fetch_and_add(&short_lived, 1);
    return 0;
  }
  // As wait_task_zombie() of the kernel chooses it.
  const int status = BPF_CORE_READ(signal, flags) & SIGNAL_GROUP_EXIT
                         ? BPF_CORE_READ(signal, group_exit_code)
                         : BPF_CORE_READ(task, group_leader, exit_code);
  process_event(RUNG_EVENT_EXIT, ids, process, status);
  return 0;
}

SEC("raw_tp/sched_process_exec")
int on_process_exec(struct bpf_raw_tracepoint_args* context) {
  const __u64 ids = current_ids();
  const __u32 pid = ids >> 32;
  if (pid == 0) return 0;
  struct rung_process* process = bpf_map_lookup_elem(&processes, &pid);
  if (!process && __sync_fetch_and_add(&exec_hints, 1) >= exec_hint_limit) {
    drop(RUNG_DROP_EXEC_LIMIT);
    return 0;
  }
  // The new program has made no call and is in no group.
  const __u32 tid = (__u32)ids;
  if (process) bpf_map_delete_elem(&threads, &tid);
  process_event(RUNG_EVENT_EXEC, ids, process, 0);
  return 0;
}
