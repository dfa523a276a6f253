#include "sources/procfs/parse.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/strings.h"

namespace rung {
namespace {

constexpr std::size_t kEnvironValueBytes = 4096;

// Parts of `text` between runs of blanks.
std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t at = 0;
  while (true) {
    at = text.find_first_not_of(" \t\n", at);
    if (at == std::string_view::npos) return out;
    const std::size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end;
  }
}

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// Whether `name` is `stem` alone or followed by '.'.
bool is_library(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem)) return false;
  return name.size() == stem.size() || name[stem.size()] == '.';
}

bool set(std::string_view text, std::uint64_t* out) {
  const auto number = parse_number<std::uint64_t>(trimmed(text));
  if (number) *out = *number;
  return number.has_value();
}

// The next blank-terminated part of a maps line.
std::string_view next_word(std::string_view* rest) {
  const std::size_t start = std::min(rest->find_first_not_of(' '), rest->size());
  const std::size_t end = std::min(rest->find(' ', start), rest->size());
  const std::string_view word = rest->substr(start, end - start);
  rest->remove_prefix(end);
  return word;
}

// "A<separator>B" as two hexadecimal numbers.
bool hex_pair(std::string_view text, char separator, std::uint64_t* first, std::uint64_t* second) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return false;
  const auto a = parse_number<std::uint64_t>(text.substr(0, at), 16);
  const auto b = parse_number<std::uint64_t>(text.substr(at + 1), 16);
  if (!a || !b) return false;
  *first = *a;
  *second = *b;
  return true;
}

std::optional<MapLine> parse_map_line(std::string_view line) {
  MapLine map;
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  if (!hex_pair(next_word(&line), '-', &map.start, &map.end)) return std::nullopt;
  const std::string_view rights = next_word(&line);
  const auto offset = parse_number<std::uint64_t>(next_word(&line), 16);
  if (!hex_pair(next_word(&line), ':', &major, &minor)) return std::nullopt;
  const auto inode = parse_number<std::uint64_t>(next_word(&line));
  if (rights.size() != 4 || !offset || !inode || map.end <= map.start) return std::nullopt;
  if (major > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  if (minor > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  map.executable = rights[2] == 'x';
  map.offset = *offset;
  map.dev = major << 32 | minor;
  map.inode = *inode;
  const std::size_t path = line.find_first_not_of(' ');
  if (path != std::string_view::npos) map.path = line.substr(path);
  constexpr std::string_view kDeleted = " (deleted)";
  if (map.path.ends_with(kDeleted)) {
    map.path.remove_suffix(kDeleted.size());
    map.deleted = true;
  }
  return map;
}

}  // namespace

Result<ProcStat> parse_stat(std::string_view text) {
  const auto bad = [] { return fail(ErrorCode::kBadInput, "malformed /proc stat line"); };
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return bad();
  }
  // Field numbers of proc(5) less 3: the first word after the comm is field 3, the state.
  constexpr std::size_t kState = 0, kPpid = 1, kSession = 3, kUtime = 11, kStime = 12,
                        kThreads = 17, kStart = 19, kRss = 21;
  const auto fields = words(text.substr(close + 1));
  if (fields.size() <= kRss || fields[kState].size() != 1) return bad();
  const auto pid = parse_number<std::int32_t>(trimmed(text.substr(0, open)));
  const auto ppid = parse_number<std::int32_t>(fields[kPpid]);
  const auto session = parse_number<std::int32_t>(fields[kSession]);
  const auto utime = parse_number<std::uint64_t>(fields[kUtime]);
  const auto stime = parse_number<std::uint64_t>(fields[kStime]);
  const auto threads = parse_number<std::int32_t>(fields[kThreads]);
  const auto start = parse_number<std::uint64_t>(fields[kStart]);
  const auto rss = parse_number<std::int64_t>(fields[kRss]);
  if (!pid || !ppid || !session || !utime || !stime || !threads || !start || !rss) return bad();
  ProcStat stat;
  stat.pid = *pid;
  stat.comm = std::string(text.substr(open + 1, close - open - 1));
  stat.state = fields[kState][0];
  stat.ppid = *ppid;
  stat.session = *session;
  stat.cpu_ticks = *utime + *stime;
  stat.threads = *threads;
  stat.start_ticks = *start;
  stat.resident_pages = *rss < 0 ? 0 : static_cast<std::uint64_t>(*rss);
  return stat;
}

Result<ProcStatus> parse_status(std::string_view text) {
  ProcStatus status;
  bool has_uid = false;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    const auto values = words(line.substr(colon + 1));
    if (values.empty()) continue;
    if (key == "Uid" && values.size() >= 2) {
      const auto uid = parse_number<std::uint32_t>(values[1]);
      has_uid = uid.has_value();
      status.uid = uid.value_or(0);
    } else if (key == "NSpid") {
      for (const std::string_view value : values) {
        if (const auto pid = parse_number<std::int32_t>(value)) status.ns_pids.push_back(*pid);
      }
    } else if (key == "TracerPid") {
      status.tracer_pid = parse_number<std::int32_t>(values[0]).value_or(0);
    } else if (key == "CapEff") {
      status.effective_caps = parse_number<std::uint64_t>(values[0], 16).value_or(0);
    } else if (key == "Seccomp") {
      status.seccomp = parse_number<std::int32_t>(values[0]);
    }
  }
  if (!has_uid) return fail(ErrorCode::kBadInput, "no Uid in /proc status");
  return status;
}

Result<ProcIo> parse_io(std::string_view text) {
  ProcIo io;
  int found = 0;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = line.substr(colon + 1);
    if (key == "rchar") found |= set(value, &io.read_chars) ? 1 : 0;
    if (key == "wchar") found |= set(value, &io.written_chars) ? 2 : 0;
    if (key == "read_bytes") found |= set(value, &io.read_bytes) ? 4 : 0;
    if (key == "write_bytes") found |= set(value, &io.written_bytes) ? 8 : 0;
  }
  if (found != 15) return fail(ErrorCode::kBadInput, "a counter is missing in /proc io");
  return io;
}

std::map<std::string, std::string> parse_environ(std::string_view text,
                                                 const std::vector<std::string_view>& keys) {
  std::map<std::string, std::string> out;
  for (const std::string_view entry : split(text, '\0')) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = entry.substr(0, equals);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) continue;
    out.emplace(key, entry.substr(equals + 1, kEnvironValueBytes));
  }
  return out;
}

std::vector<MapLine> parse_maps(std::string_view text, std::uint64_t* bad) {
  std::vector<MapLine> out;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    if (auto map = parse_map_line(line)) {
      out.push_back(*map);
    } else if (bad != nullptr) {
      ++*bad;
    }
  }
  return out;
}

std::optional<LibraryKind> library_kind(std::string_view path) {
  const std::string_view name = base_name(path);
  if (is_library(name, "libcuda.so")) return LibraryKind::kCuda;
  if (is_library(name, "libcudart.so")) return LibraryKind::kCudart;
  // Wheels rename what they bundle: libcudart-d0da41ae.so.11.0.
  if (name.starts_with("libcudart-") && name.find(".so") != std::string_view::npos) {
    return LibraryKind::kCudart;
  }
  if (is_library(name, "libnccl.so")) return LibraryKind::kNccl;
  if (is_library(name, "libcupti.so")) return LibraryKind::kCupti;
  if (name == "libtorch_cuda.so") return LibraryKind::kTorchCuda;
  return std::nullopt;
}

std::string version_in_name(std::string_view path) {
  const std::string_view name = base_name(path);
  const std::size_t so = name.find(".so.");
  if (so == std::string_view::npos) return "";
  const std::string_view version = name.substr(so + 4);
  const bool numeric = version.find_first_not_of("0123456789.") == std::string_view::npos;
  return numeric && version.find('.') != std::string_view::npos ? std::string(version) : "";
}

bool is_compiler(std::string_view comm) {
  constexpr std::array<std::string_view, 24> kNames = {
      "ptxas",    "cicc",  "nvcc",   "nvlink",  "fatbinary", "cudafe++", "cc1",    "cc1plus",
      "gcc",      "g++",   "cc",     "c++",     "as",        "ld",       "ld.bfd", "ld.gold",
      "collect2", "clang", "ld.lld", "clang++", "lld",       "ninja",    "make",   "lto1"};
  if (std::find(kNames.begin(), kNames.end(), comm) != kNames.end()) return true;
  // Versioned names: clang-16, x86_64-linux-gnu-gcc-12 (a comm is cut at 15 bytes).
  return comm.starts_with("clang-") || comm.starts_with("gcc-") || comm.starts_with("g++-") ||
         comm.starts_with("x86_64-linux-gn") || comm.starts_with("aarch64-linux-g");
}

ProcessState process_state(char state) {
  switch (state) {
    case 'R':
      return ProcessState::kRunning;
    case 'D':
      return ProcessState::kDiskSleep;
    case 'T':
      return ProcessState::kStopped;
    case 't':
      return ProcessState::kTraced;
    case 'Z':
    case 'X':
    case 'x':
      return ProcessState::kZombie;
    default:
      return ProcessState::kSleeping;
  }
}

}  // namespace rung
