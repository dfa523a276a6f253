#include "sources/host_probes/process_view.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <string_view>

#include "base/files.h"
#include "base/strings.h"

namespace rung {
namespace {

// The fields after the command name, which is in parentheses and may hold anything.
std::optional<std::string> stat_tail(const std::string& path) {
  auto text = read_file(path, 4096);
  if (!text) return std::nullopt;
  const std::size_t close = text->rfind(')');
  if (close == std::string::npos || close + 2 > text->size()) return std::nullopt;
  return text->substr(close + 2);
}

}  // namespace

std::optional<std::uint64_t> start_ticks_of(const std::string& proc_root, int pid) {
  const auto tail = stat_tail(fmt::format("{}/proc/{}/stat", proc_root, pid));
  if (!tail) return std::nullopt;
  const auto fields = split(*tail, ' ');
  constexpr std::size_t kStartTime = 19;  // field 22 of the line, the first here is field 3
  if (fields.size() <= kStartTime) return std::nullopt;
  return parse_number<std::uint64_t>(fields[kStartTime]);
}

std::optional<char> thread_state_of(const std::string& proc_root, int pid, int tid) {
  const auto tail = stat_tail(fmt::format("{}/proc/{}/task/{}/stat", proc_root, pid, tid));
  if (!tail || tail->empty()) return std::nullopt;
  return tail->front();
}

bool read_process_memory(int pid, std::uint64_t address, void* out, std::size_t bytes) {
  iovec here{out, bytes};
  iovec there{reinterpret_cast<void*>(address), bytes};
  return process_vm_readv(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

}  // namespace rung
