// What the eBPF programs of the host probes and their loader say to each other. C and C++; sizes
// are checked on both sides.
#pragma once

#include <linux/types.h>

#ifdef __cplusplus
#define RUNG_BPF_SIZE(type, bytes) static_assert(sizeof(struct type) == (bytes))
#else
#define RUNG_BPF_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#endif

enum rung_probe_bound {
  RUNG_PROBE_SLOTS = 512,      // processes watched at once
  RUNG_PROBE_THREADS = 16384,  // threads whose last call is kept
  RUNG_PROBE_PEERS = 65536,    // (communicator, peer) pairs with point-to-point counts
  RUNG_PROBE_FUNCTIONS = 256,  // rows of the function table, a power of two
  RUNG_PROBE_LAYOUTS = 64,     // rows of the NCCL layout table, a power of two; row 0: none
  RUNG_PROBE_LINKS = 4,        // library files that one process may call into
  RUNG_PROBE_GROUP_COMMS = 4,  // communicators counted inside one open NCCL group of a thread
  RUNG_PROBE_CLASSES = 18,     // RUNG_CALL_CLASSES of vocab/calls.h
  RUNG_PROBE_UNIQUE_ID = 128   // bytes of an ncclUniqueId
};

// How the size of a call is found.
enum rung_bytes_from {
  RUNG_BYTES_NONE = 0,
  RUNG_BYTES_ARGUMENT = 1,  // argument bytes_a times scale
  RUNG_BYTES_PRODUCT = 2,   // argument bytes_a times argument bytes_b times scale
  RUNG_BYTES_COPY_2D = 3,   // argument bytes_a points to a CUDA_MEMCPY2D
  RUNG_BYTES_COPY_3D = 4    // argument bytes_a points to a CUDA_MEMCPY3D or CUDA_MEMCPY3D_PEER
};

// What the NCCL program does at a function.
enum rung_nccl_action {
  RUNG_NCCL_NONE = 0,
  RUNG_NCCL_COLLECTIVE = 1,
  RUNG_NCCL_POINT_TO_POINT = 2,
  RUNG_NCCL_GROUP_START = 3,
  RUNG_NCCL_GROUP_END = 4,
  RUNG_NCCL_INIT = 5,    // makes a communicator from an ncclUniqueId
  RUNG_NCCL_DERIVE = 6,  // makes one from another (split, shrink) or without id (init all)
  RUNG_NCCL_DESTROY = 7,
  RUNG_NCCL_ABORT = 8
};

// One probed function. Arguments are positions, 0 first; -1: there is none.
struct rung_function {
  __u8 call_class;  // rung_call_class
  __u8 op;          // rung_collective_op
  __u8 action;      // rung_nccl_action
  __u8 numbered;    // advances NCCL's per-communicator sequence numbers
  __u8 bytes_from;  // rung_bytes_from
  __u8 scale;
  __s8 bytes_a;
  __s8 bytes_b;
  __s8 comm;
  __s8 count;
  __s8 datatype;
  __s8 reduction;
  __s8 peer;  // or root
  __s8 out;   // ncclComm_t* that receives the new communicator
  __s8 nranks;
  __s8 rank;
  __s8 unique_id;  // position of the ncclUniqueId; by value where by_value is set
  __u8 by_value;
  __u8 pad[6];
};
RUNG_BPF_SIZE(rung_function, 24);

// Offsets inside ncclComm of one NCCL build.
struct rung_comm_layout {
  __u32 end_magic;   // bytes; 0: this row is empty
  __u32 identity;    // commHash u64, rank i32, nRanks i32 in a row
  __u32 sequence;    // seqNumber[5], u64 each
  __u32 init_state;  // i32, 0 once init has succeeded
  __u32 numbered;    // 1 where the sequence numbers always advance
  __u32 pad;
};
RUNG_BPF_SIZE(rung_comm_layout, 24);

#define RUNG_NCCL_MAGIC 0x0280028002800280ULL

// The attach cookie: function | layout << 16 | link << 32.
#define RUNG_COOKIE(function, layout, link) \
  ((__u64)(function) | (__u64)(layout) << 16 | (__u64)(link) << 32)

// A watched process.
struct rung_process {
  __u32 slot;
  __u32 generation;
  __u32 links[RUNG_PROBE_LINKS];  // links whose hits are this process's own; 0: unused
};
RUNG_BPF_SIZE(rung_process, 24);

// Calls of one process on one CPU.
struct rung_counters {
  __u64 entered[RUNG_PROBE_CLASSES];
  __u64 bytes_copy;
  __u64 bytes_set;
  __u64 bytes_alloc;
  __u64 ring_lost;  // events that found the ring full
};
RUNG_BPF_SIZE(rung_counters, 176);

struct rung_group_comm {
  __u64 comm;
  __u64 base;   // sum of the sequence numbers when the group began
  __u32 count;  // numbered collectives since then
  __u32 base_known;
};

// The last call of a thread. `function` lies before `entered`, and is written after it: a reader
// that copies upwards may see an old function with a new time, never the reverse.
struct rung_thread {
  __u32 slot;
  __u32 generation;
  __u32 function;
  __u32 pad;
  __u64 entered_mono_ns;
  __u64 calls;
  __u32 group_depth;
  __u32 capturing;
  __u32 group_used;
  __u32 pad2;
  struct rung_group_comm group[RUNG_PROBE_GROUP_COMMS];
};
RUNG_BPF_SIZE(rung_thread, 144);

struct rung_peer_key {
  __u64 comm;
  __u64 comm_hash;  // 0: not identified
  __u32 slot;
  __u32 generation;
  __s32 peer;
  __u32 pad;
};
RUNG_BPF_SIZE(rung_peer_key, 32);

struct rung_peer_counts {
  __u64 sends;
  __u64 receives;
  __u64 last_mono_ns;
};
RUNG_BPF_SIZE(rung_peer_counts, 24);

// Hits that became nothing, by reason.
enum rung_drop {
  RUNG_DROP_NO_SLOT = 0,       // the process is not watched
  RUNG_DROP_OTHER_LINK = 1,    // the process is watched through another file
  RUNG_DROP_THREADS_FULL = 2,  // its last call is unknown; counted all the same
  RUNG_DROP_PEERS_FULL = 3,
  RUNG_DROP_GROUP_FULL = 4,  // too many communicators in one group: no index
  RUNG_DROP_RING_FULL = 5,
  RUNG_DROP_EXEC_LIMIT = 6,  // exec hints over the bound of one tick
  RUNG_DROP_UNREADABLE = 7,  // an argument in memory could not be read
  RUNG_DROPS = 8
};

enum rung_event_kind {
  RUNG_EVENT_COLLECTIVE = 1,
  RUNG_EVENT_COMM = 2,
  RUNG_EVENT_COMM_SEEN = 3,  // first point-to-point call with a peer on a communicator
  RUNG_EVENT_EXEC = 4,
  RUNG_EVENT_EXIT = 5
};

enum rung_event_flag {
  RUNG_EVENT_IDENTIFIED = 1,  // comm_hash, comm_rank, comm_size were read and are plausible
  RUNG_EVENT_BASE = 2,        // `base` was read
  RUNG_EVENT_CAPTURED = 4,
  RUNG_EVENT_NUMBERED = 8,  // advances the sequence numbers
  RUNG_EVENT_IN_GROUP = 16
};

struct rung_event {
  __u32 kind;
  __u32 slot;
  __u32 generation;
  __u32 function;
  __s32 pid;
  __s32 tid;
  __u64 mono_ns;
};
RUNG_BPF_SIZE(rung_event, 32);

struct rung_comm_identity {
  __u64 comm;
  __u64 hash;
  __s32 rank;
  __s32 size;
};
RUNG_BPF_SIZE(rung_comm_identity, 24);

struct rung_collective_event {
  struct rung_event head;
  struct rung_comm_identity comm;
  __u64 base;
  __u64 count;
  __u32 position;  // among the numbered collectives of this communicator in this group
  __u32 flags;     // rung_event_flag
  __s32 root;
  __u32 datatype;
  __u32 reduction;
  __u32 pad;
};
RUNG_BPF_SIZE(rung_collective_event, 96);

struct rung_comm_event {
  struct rung_event head;
  struct rung_comm_identity comm;  // the parent for RUNG_NCCL_DERIVE, empty for RUNG_NCCL_INIT
  __u64 out;                       // where the new communicator's pointer will be written
  __u32 flags;
  __u32 layout;
  __s32 nranks;
  __s32 rank;
  __u8 unique_id[RUNG_PROBE_UNIQUE_ID];
  __u32 has_unique_id;
  __u32 pad;
};
RUNG_BPF_SIZE(rung_comm_event, 216);

struct rung_process_event {
  struct rung_event head;
  __s32 wait_status;  // as wait(2) gives it, for RUNG_EVENT_EXIT
  __u32 pad;
};
RUNG_BPF_SIZE(rung_process_event, 40);
