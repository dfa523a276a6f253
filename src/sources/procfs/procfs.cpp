#include "sources/procfs/procfs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>

#include "base/files.h"
#include "base/strings.h"
#include "model/limits.h"

namespace rung {
namespace {

constexpr std::size_t kStatBytes = 4096;
constexpr std::size_t kStatusBytes = 16384;
constexpr std::size_t kCgroupBytes = 65536;
constexpr std::size_t kMostAncestors = 64;
constexpr std::size_t kMostLibraries = 64;
constexpr std::size_t kMostThreads = 512;  // looked at in one sample
constexpr std::size_t kMostSeenFiles = 1024;

std::uint64_t read_boot(const std::string& proc) {
  const auto text = read_file(proc + "/sys/kernel/random/boot_id", 64);
  if (!text) return 0;
  std::string digits;
  std::copy_if(text->begin(), text->end(), std::back_inserter(digits),
               [](char c) { return c != '-' && c != '\n'; });
  return parse_number<std::uint64_t>(std::string_view(digits).substr(0, 16), 16).value_or(0);
}

std::int64_t ns_per_tick() {
  static const long ticks = ::sysconf(_SC_CLK_TCK);
  return 1'000'000'000 / (ticks > 0 ? ticks : 100);
}

std::uint64_t page_bytes() {
  static const long bytes = ::sysconf(_SC_PAGESIZE);
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 4096;
}

Result<Fd> open_regular(const std::string& path, struct stat* facts) {
  // The path may lead to a FIFO or to a device whose mere opening has effects (a watchdog): look
  // first, open second.
  Fd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!place.valid()) return fail_errno(errno, "cannot open " + path);
  if (::fstat(place.get(), facts) != 0) return fail_errno(errno, "cannot stat " + path);
  if (!S_ISREG(facts->st_mode)) return fail(ErrorCode::kBadInput, path + " is not a regular file");
  Fd fd(::open(fmt::format("/proc/self/fd/{}", place.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno(errno, "cannot open " + path);
  return fd;
}

template <class T>
Result<T> parsed(const Result<std::string>& text, Result<T> (*parse)(std::string_view)) {
  if (!text) return tl::unexpected(text.error());
  return parse(*text);
}

}  // namespace

void ProcessTree::add(Node node) {
  const std::int32_t pid = node.pid;
  children[node.ppid].push_back(pid);
  nodes.insert_or_assign(pid, std::move(node));
}

std::int32_t ProcessTree::compilers_below(std::int32_t pid) const {
  std::int32_t found = 0;
  std::vector<std::int32_t> open{pid};
  std::unordered_set<std::int32_t> seen{pid};  // the snapshot is not atomic: it may hold a cycle
  while (!open.empty()) {
    const auto below = children.find(open.back());
    open.pop_back();
    if (below == children.end()) continue;
    for (const std::int32_t child : below->second) {
      if (!seen.insert(child).second) continue;
      const auto node = nodes.find(child);
      if (node != nodes.end() && node->second.state != 'Z' && is_compiler(node->second.comm)) {
        ++found;
      }
      open.push_back(child);
    }
  }
  return found;
}

ProcFs::ProcFs(std::string root) : proc_(std::move(root)) {
  while (proc_.ends_with('/')) proc_.pop_back();
  proc_ += "/proc";
  boot_ = read_boot(proc_);
}

std::string ProcFs::path(std::int32_t pid, std::string_view file) const {
  return fmt::format("{}/{}/{}", proc_, pid, file);
}

Result<std::vector<std::int32_t>> ProcFs::list_pids() const {
  // Beside processes /proc holds some hundred other names.
  auto names = list_folder(proc_, limits::kProcesses + 1024);
  if (!names) return tl::unexpected(names.error());
  std::vector<std::int32_t> pids;
  for (const std::string& name : *names) {
    if (const auto pid = parse_number<std::int32_t>(name)) pids.push_back(*pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

Result<ProcStat> ProcFs::stat(std::int32_t pid) const {
  return parsed(read_file(path(pid, "stat"), kStatBytes), parse_stat);
}

Result<ProcStatus> ProcFs::status(std::int32_t pid) const {
  return parsed(read_file(path(pid, "status"), kStatusBytes), parse_status);
}

Result<ProcIo> ProcFs::io(std::int32_t pid) const {
  return parsed(read_file(path(pid, "io"), kStatBytes), parse_io);
}

Result<std::string> ProcFs::cgroup(std::int32_t pid) const {
  return read_file(path(pid, "cgroup"), kCgroupBytes);
}

Result<std::map<std::string, std::string>> ProcFs::environ(
    std::int32_t pid, const std::vector<std::string_view>& keys) const {
  auto text = read_file(path(pid, "environ"), limits::kEnvironBytes);
  if (!text) return tl::unexpected(text.error());
  return parse_environ(*text, keys);
}

Result<std::string> ProcFs::exe(std::int32_t pid) const { return read_link(path(pid, "exe")); }

Result<std::string> ProcFs::wait_channel(std::int32_t pid) const {
  auto text = read_file(path(pid, "wchan"), 128);
  if (!text) return tl::unexpected(text.error());
  return *text == "0" ? std::string() : printable(trimmed(*text), 64);
}

Result<ProcessKey> ProcFs::key(std::int32_t pid) const {
  auto found = stat(pid);
  if (!found) return tl::unexpected(found.error());
  return ProcessKey{boot_, pid, found->start_ticks};
}

bool ProcFs::alive(const ProcessKey& process) const {
  const auto now = key(process.pid);
  return now && *now == process;
}

char ProcFs::thread_state(std::int32_t pid, std::int32_t tid) const {
  const auto found =
      parsed(read_file(path(pid, fmt::format("task/{}/stat", tid)), kStatBytes), parse_stat);
  return found ? found->state : '?';
}

Result<std::vector<ThreadState>> ProcFs::thread_states(std::int32_t pid, std::size_t most) const {
  auto names = list_folder(path(pid, "task"), most);
  if (!names) return tl::unexpected(names.error());
  std::vector<ThreadState> states;
  for (const std::string& name : *names) {
    const auto tid = parse_number<std::int32_t>(name);
    if (tid) states.push_back(ThreadState{*tid, thread_state(pid, *tid)});
  }
  return states;
}

Result<ProcessTree> ProcFs::tree() const {
  auto pids = list_pids();
  if (!pids) return tl::unexpected(pids.error());
  ProcessTree tree;
  for (const std::int32_t pid : *pids) {
    if (tree.nodes.size() >= limits::kProcesses) {
      ++tree.left_out;
      continue;
    }
    auto found = stat(pid);
    if (!found) continue;  // it ended since it was listed
    tree.add({pid, found->ppid, found->start_ticks, found->state, std::move(found->comm)});
  }
  return tree;
}

std::vector<ProcessAncestor> ProcFs::ancestors(std::int32_t pid, const ProcessTree& tree) const {
  std::vector<ProcessAncestor> chain;
  auto node = tree.nodes.find(pid);
  while (node != tree.nodes.end() && chain.size() < kMostAncestors) {
    node = tree.nodes.find(node->second.ppid);
    if (node == tree.nodes.end()) break;
    const auto who = status(node->first);
    if (!who) break;
    const ProcessKey key{boot_, node->first, node->second.start_ticks};
    chain.push_back(ProcessAncestor{key, who->uid, node->second.comm});
  }
  return chain;
}

Result<std::vector<MappedLibrary>> ProcFs::mapped_libraries(std::int32_t pid) const {
  auto text = read_file(path(pid, "maps"), limits::kMapsBytes);
  if (!text) return tl::unexpected(text.error());
  std::vector<MappedLibrary> libraries;
  for (const MapLine& map : parse_maps(*text)) {
    const auto kind = library_kind(map.path);
    if (!kind || map.inode == 0) continue;
    const bool known = std::any_of(libraries.begin(), libraries.end(), [&](const auto& library) {
      return library.dev == map.dev && library.inode == map.inode;
    });
    if (known || libraries.size() >= kMostLibraries) continue;
    libraries.push_back(
        {*kind, std::string(map.path), map.dev, map.inode, map.start, map.end, map.deleted});
  }
  return libraries;
}

std::string ProcFs::map_files_path(std::int32_t pid, const MappedLibrary& library) const {
  return path(pid, fmt::format("map_files/{:x}-{:x}", library.start, library.end));
}

Result<Fd> ProcFs::open_library(std::int32_t pid, const MappedLibrary& library) const {
  struct stat facts;
  auto mapped = open_regular(map_files_path(pid, library), &facts);
  if (mapped || library.deleted) return mapped;
  const std::string by_name = path(pid, "root") + library.path;
  auto named = open_regular(by_name, &facts);
  if (!named) return mapped;
  if (facts.st_ino != library.inode) {
    return fail(ErrorCode::kNotFound, library.path + " is no longer the file that is mapped",
                "run with CAP_CHECKPOINT_RESTORE to read it through map_files");
  }
  return named;
}

Result<LibraryFacts> ProcFs::fingerprint(std::int32_t pid, const MappedLibrary& library) {
  auto fd = open_library(pid, library);
  if (!fd) return tl::unexpected(fd.error());
  struct stat facts;
  if (::fstat(fd->get(), &facts) != 0) return fail_errno(errno, "cannot stat " + library.path);
  const FileKey key{
      static_cast<std::uint64_t>(facts.st_dev), static_cast<std::uint64_t>(facts.st_ino),
      static_cast<std::uint64_t>(facts.st_size), static_cast<std::uint64_t>(facts.st_ctim.tv_sec),
      static_cast<std::uint64_t>(facts.st_ctim.tv_nsec)};
  auto seen = seen_files_.find(key);
  if (seen == seen_files_.end()) {
    auto read = read_elf_facts(fd->get(), library.kind == LibraryKind::kNccl);
    if (!read) return tl::unexpected(read.error());
    if (seen_files_.size() >= kMostSeenFiles) seen_files_.clear();
    seen = seen_files_.emplace(key, std::move(*read)).first;
  }
  LibraryFacts out;
  out.fingerprint.kind = library.kind;
  out.fingerprint.path = printable(library.path, limits::kNameBytes * 4);
  out.fingerprint.build_id = seen->second.build_id;
  out.fingerprint.version = seen->second.nccl_version;
  if (out.fingerprint.version.empty()) out.fingerprint.version = version_in_name(library.path);
  out.simulated = seen->second.simulated;
  return out;
}

Result<ProcessSample> ProcFs::sample(const ProcessKey& process, const ProcessTree& tree,
                                     Depth depth) const {
  const auto found = stat(process.pid);
  if (!found) return tl::unexpected(found.error());
  if (found->start_ticks != process.start_ticks) {
    return fail(ErrorCode::kNotFound, fmt::format("process {} is gone", process.pid));
  }
  ProcessSample sample;
  sample.state = process_state(found->state);
  sample.threads = found->threads;
  sample.cpu_ns = static_cast<std::int64_t>(found->cpu_ticks) * ns_per_tick();
  sample.resident_bytes = found->resident_pages * page_bytes();
  sample.child_compilers = tree.compilers_below(process.pid);
  if (const auto bytes = io(process.pid)) {
    sample.read_bytes = bytes->read_bytes;
    sample.written_bytes = bytes->written_bytes;
    sample.read_chars = bytes->read_chars;
    sample.written_chars = bytes->written_chars;
  }
  if (const auto more = status(process.pid)) sample.tracer_pid = more->tracer_pid;
  if (const auto channel = wait_channel(process.pid)) sample.wait_channel = *channel;
  const auto threads = depth == Depth::kWithThreads ? thread_states(process.pid, kMostThreads)
                                                    : Result<std::vector<ThreadState>>();
  if (threads && depth == Depth::kWithThreads) {
    sample.threads_disk_sleep = static_cast<std::int32_t>(std::count_if(
        threads->begin(), threads->end(), [](const auto& thread) { return thread.state == 'D'; }));
  }
  // A pid that was reused meanwhile would mix two processes.
  if (!alive(process))
    return fail(ErrorCode::kNotFound, fmt::format("process {} is gone", process.pid));
  return sample;
}

}  // namespace rung
