// Fabric: the memory that all processes of one simulated node share.
//
// It is a sparse file `fabric` in the run folder (environment variable RUNG_SIM_DIR); without that
// variable it is private anonymous memory, and one process can use the fakes by itself. A file of
// zeros is a valid initial state, so nobody has to initialise it. Nothing here takes a lock across
// processes: a rank may be killed or stopped at any instruction.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace rung::sim {

inline constexpr std::size_t kMaxRanks = 256;
inline constexpr std::size_t kDevices = 8;  // of the node, whether a job uses them or not
inline constexpr std::size_t kProcessesPerDevice = 32;
inline constexpr std::size_t kMaxComms = 1024;

// Total time during which something was true, and since when it is true now (0: it is not).
// CLOCK_MONOTONIC nanoseconds. One process writes, others read.
struct BusySpan {
  std::atomic<std::int64_t> total_ns;
  std::atomic<std::int64_t> since_ns;
};

// One process that holds a context on a device.
struct DeviceProcess {
  std::atomic<std::int32_t> pid;  // 0: free
  std::uint32_t pad;
  std::atomic<std::uint64_t> used_bytes;
  std::atomic<std::uint64_t> kernels;
  std::atomic<std::uint64_t> nvlink_bytes;  // sent by collectives
  BusySpan any;                             // any kernel resident
  BusySpan compute;                         // a kernel that is not a collective resident
};

struct DeviceBoard {
  std::array<DeviceProcess, kProcessesPerDevice> processes;
};

// What a scripted rank says about itself to the runner; never read by the fakes.
struct RankBoard {
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t> pad;
  std::atomic<std::int64_t> steps_done;
  std::atomic<std::int64_t> training_unix_ns;  // first step began
  std::atomic<std::int64_t> fault_unix_ns;     // first fault of this rank began
  std::atomic<std::int64_t> recovered_unix_ns;
};

struct CommEntry {
  std::atomic<std::uint64_t> key;     // commHash; 0: free
  std::atomic<std::uint64_t> offset;  // of its area in the file; 0: not yet placed
};

struct FabricHeader {
  std::atomic<std::uint32_t> id_ready;  // futex: rank 0 has published unique_id
  std::array<char, 128> unique_id;
  std::atomic<std::uint64_t> arena_used;
  std::array<CommEntry, kMaxComms> comms;
  std::array<RankBoard, kMaxRanks> ranks;
  std::array<DeviceBoard, kDevices> devices;
};

class Fabric {
 public:
  // The fabric of RUNG_SIM_DIR; nullptr when it cannot be mapped. Never freed.
  static Fabric* instance();
  // Maps the fabric of `folder`; nullptr with errno on failure, or if it is absent and shall not be
  // created. "" gives private memory. The caller owns it.
  static Fabric* open(const std::string& folder, bool create);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  FabricHeader& header() { return *reinterpret_cast<FabricHeader*>(base_); }
  // Zeroed memory of at least `bytes` bytes that every caller with the same key shares; nullptr
  // when the table or the file is full.
  std::byte* comm_area(std::uint64_t key, std::size_t bytes);

 private:
  explicit Fabric(std::byte* base) : base_(base) {}
  std::byte* base_;
};

// FUTEX_WAIT on shared memory while *word == expected; timeout_ms < 0 waits without limit.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, int timeout_ms);
void futex_wake_all(std::atomic<std::uint32_t>& word);

std::int64_t monotonic_ns();
// Sleeps until CLOCK_MONOTONIC reaches `deadline_ns`.
void sleep_until(std::int64_t deadline_ns);

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace rung::sim
