// Parsers of /proc texts. Every byte of them may be chosen by a hostile process: a parser either
// gives a well-formed value or an error, and its result is bounded by its input.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/observation.h"

namespace rung {

// Fields of /proc/PID/stat and /proc/PID/task/TID/stat (proc(5)).
struct ProcStat {
  std::int32_t pid = 0;
  std::string comm;  // as the process chose it; may hold any bytes but NUL
  char state = '?';  // R, S, D, T, t, Z, X, I
  std::int32_t ppid = 0;
  std::int32_t session = 0;
  std::uint64_t cpu_ticks = 0;  // utime + stime
  std::int32_t threads = 0;
  std::uint64_t start_ticks = 0;  // clock ticks since boot
  std::uint64_t resident_pages = 0;
};
// The comm is taken between the first '(' and the last ')', since it may itself hold ") R 1 ".
// Errors: kBadInput.
Result<ProcStat> parse_stat(std::string_view text);

// Fields of /proc/PID/status.
struct ProcStatus {
  std::uint32_t uid = 0;                // effective
  std::vector<std::int32_t> ns_pids;    // from the reader's namespace inward; may be empty
  std::int32_t tracer_pid = 0;          // 0: none
  std::uint64_t effective_caps = 0;     // bit mask of capabilities(7) numbers
  std::optional<std::int32_t> seccomp;  // 0 off, 1 strict, 2 filter; absent on kernels without it
};
// Errors: kBadInput when Uid is missing or malformed.
Result<ProcStatus> parse_status(std::string_view text);

// /proc/PID/io, bytes since the start of the process.
struct ProcIo {
  std::uint64_t read_chars = 0;
  std::uint64_t written_chars = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
};
// Errors: kBadInput when one of the four is missing.
Result<ProcIo> parse_io(std::string_view text);

// The variables among `keys` from the NUL-separated text of /proc/PID/environ. The first
// occurrence counts, as for getenv. Values are cut at 4096 bytes.
std::map<std::string, std::string> parse_environ(std::string_view text,
                                                 const std::vector<std::string_view>& keys);

// One line of /proc/PID/maps.
struct MapLine {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  bool executable = false;
  std::uint64_t offset = 0;
  std::uint64_t dev = 0;  // major << 32 | minor
  std::uint64_t inode = 0;
  std::string_view path;  // points into the parsed text; "" for anonymous memory
  bool deleted = false;   // " (deleted)" was cut off the path
};
// Malformed lines are left out and counted in *bad when it is given.
std::vector<MapLine> parse_maps(std::string_view text, std::uint64_t* bad = nullptr);

// Which library a file is by its base name (libcuda.so*, libcudart.so*, libcudart-HASH.so*,
// libnccl.so*, libcupti.so*, libtorch_cuda.so), or nothing.
std::optional<LibraryKind> library_kind(std::string_view path);

// The version in a file name: "580.95.05" of "libcuda.so.580.95.05"; "" when it ends in ".so" or
// in a single number (that is an interface version).
std::string version_in_name(std::string_view path);

// Whether a process of this comm compiles or links code (ptxas, cc1plus, nvcc, ld, ninja...).
bool is_compiler(std::string_view comm);

ProcessState process_state(char state);

}  // namespace rung
