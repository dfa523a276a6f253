// ProcFs: what /proc says of processes. Every call survives a process that vanishes midway
// (kNotFound) and contents that the process chose to be hostile.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "model/ids.h"
#include "model/observation.h"
#include "sources/procfs/elf_facts.h"
#include "sources/procfs/parse.h"

namespace rung {

// All processes at one moment, by parent.
struct ProcessTree {
  struct Node {
    std::int32_t pid = 0;
    std::int32_t ppid = 0;
    std::uint64_t start_ticks = 0;
    char state = '?';
    std::string comm;
  };
  std::unordered_map<std::int32_t, Node> nodes;
  std::unordered_map<std::int32_t, std::vector<std::int32_t>> children;
  std::uint64_t left_out = 0;  // processes over limits::kProcesses

  void add(Node node);
  // Descendants of any depth that are compilers or linkers (parse.h, is_compiler).
  std::int32_t compilers_below(std::int32_t pid) const;
};

struct ProcessAncestor {
  ProcessKey key;
  std::uint32_t uid = 0;
  std::string comm;
};

// A library file as it is mapped into one process.
struct MappedLibrary {
  LibraryKind kind = LibraryKind::kCuda;
  std::string path;  // in the mount namespace of the process
  std::uint64_t dev = 0;
  std::uint64_t inode = 0;
  std::uint64_t start = 0;  // address range of the lowest mapping, also its name in map_files
  std::uint64_t end = 0;
  bool deleted = false;  // the file has no name any more
};

struct LibraryFacts {
  LibraryFingerprint fingerprint;
  bool simulated = false;  // the simulator's: exports rung_simulated
};

struct ThreadState {
  std::int32_t tid = 0;
  char state = '?';
};

class ProcFs {
 public:
  // `root` holds proc/; tests give a folder of their own.
  explicit ProcFs(std::string root = "/");

  // First 8 bytes of the host's boot id, 0 when it cannot be read. Read once.
  std::uint64_t boot() const { return boot_; }

  Result<std::vector<std::int32_t>> list_pids() const;
  Result<ProcStat> stat(std::int32_t pid) const;
  Result<ProcStatus> status(std::int32_t pid) const;
  Result<ProcIo> io(std::int32_t pid) const;
  Result<std::string> cgroup(std::int32_t pid) const;  // the text, at most 64 KiB
  // Values of `keys` in the environment that the process was started with (at most
  // limits::kEnvironBytes of it); what it changed later is not visible there.
  Result<std::map<std::string, std::string>> environ(
      std::int32_t pid, const std::vector<std::string_view>& keys) const;
  Result<std::string> exe(std::int32_t pid) const;
  // Kernel function that the main thread sleeps in; "" when it runs or the kernel does not tell.
  Result<std::string> wait_channel(std::int32_t pid) const;

  Result<ProcessKey> key(std::int32_t pid) const;
  // Whether this very process, not a later one of the same pid, is there. A zombie is.
  bool alive(const ProcessKey& process) const;

  // 'R', 'S', 'D'... of one thread; '?' when it cannot be read.
  char thread_state(std::int32_t pid, std::int32_t tid) const;
  // Of at most `most` threads, in no order.
  Result<std::vector<ThreadState>> thread_states(std::int32_t pid, std::size_t most) const;

  Result<ProcessTree> tree() const;
  // Ancestors, nearest first, at most 64; ends at the first that cannot be read.
  std::vector<ProcessAncestor> ancestors(std::int32_t pid, const ProcessTree& tree) const;

  // Known libraries mapped by the process, one entry per file, by ascending address. At most 64.
  Result<std::vector<MappedLibrary>> mapped_libraries(std::int32_t pid) const;
  // "ROOT/proc/PID/map_files/START-END": opens the very file that is mapped, whatever its path
  // names by now and in which mount namespace. Needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
  std::string map_files_path(std::int32_t pid, const MappedLibrary& library) const;
  // The mapped file, open for reading; through map_files, else through the root folder of the
  // process if the file there has the mapped inode number. Only regular files.
  Result<Fd> open_library(std::int32_t pid, const MappedLibrary& library) const;
  // Build id and version; kept by (dev, inode, size, change time), so that it costs one open for a
  // file that was seen before.
  Result<LibraryFacts> fingerprint(std::int32_t pid, const MappedLibrary& library);

  // A look at each thread costs some ten microseconds a thread.
  enum class Depth : std::uint8_t { kProcessOnly, kWithThreads };

  // One look. Errors: kNotFound when the process is gone or another one has its pid. Threads
  // beyond the first 512 are not searched for disk sleep.
  Result<ProcessSample> sample(const ProcessKey& process, const ProcessTree& tree,
                               Depth depth = Depth::kWithThreads) const;

 private:
  std::string path(std::int32_t pid, std::string_view file) const;

  std::string proc_;  // ROOT/proc
  std::uint64_t boot_ = 0;
  using FileKey = std::array<std::uint64_t, 5>;
  std::map<FileKey, ElfFacts> seen_files_;
};

}  // namespace rung
