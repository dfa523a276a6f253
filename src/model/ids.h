// Who is who: processes, jobs, ranks, devices, communicators.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace rung {

// A process that cannot be confused with a later one of the same pid.
struct ProcessKey {
  std::uint64_t boot = 0;         // first 8 bytes of the host's boot id
  std::int32_t pid = 0;           // in the agent's pid namespace
  std::uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat, in clock ticks since boot

  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

// A job as people know it: "slurm:4242.0", "k8s:pod-uid", "run:PID-START" of a launcher.
struct JobId {
  std::string text;
  friend auto operator<=>(const JobId&, const JobId&) = default;
};

// A global rank within a job.
struct RankId {
  std::int32_t value = -1;
  friend auto operator<=>(const RankId&, const RankId&) = default;
};

// A GPU (or MIG instance) by its UUID, "GPU-...".
struct DeviceId {
  std::string uuid;
  friend auto operator<=>(const DeviceId&, const DeviceId&) = default;
};

// A communicator. Equal on all its ranks. `source` says how far to trust it.
struct CommId {
  enum class Source : std::uint8_t {
    kUnidentified = 0,  // only a pointer: says nothing across ranks
    kUniqueId = 1,      // from the ncclUniqueId given to init: a hash of its 128 bytes
    kMemory = 2,        // NCCL's commHash, read at the communicator pointer
    kPlugin = 3,        // NCCL's commHash, told by NCCL
  };
  std::uint64_t hash = 0;
  Source source = Source::kUnidentified;
  friend auto operator<=>(const CommId&, const CommId&) = default;
};
const char* name_of(CommId::Source source);

}  // namespace rung
