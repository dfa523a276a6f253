// Watching: slots for processes, and the probes of the libraries that they map.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/files.h"
#include "base/strings.h"
#include "sources/host_probes/host_probes_impl.h"
#include "sources/host_probes/process_view.h"

namespace rung {

Result<Watched*> HostProbes::Impl::admit(const ProcessKey& key, int pid) {
  const auto known = processes_.find(key);
  if (known != processes_.end()) return known->second.get();
  if (free_slots_.empty()) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("no slot is left: {} processes are watched", processes_.size()));
  }
  auto process = std::make_unique<Watched>(key, pid, layouts_);
  // The oldest free slot, so that late hits of its former owner have long ended.
  process->entry.slot = free_slots_.front();
  process->entry.generation = ++last_generation_;
  process->since = unix_ns(unix_now_ns());
  process->watched_since = process->since;
  programs_->clear_counters(process->entry.slot);
  auto set = programs_->set_process(static_cast<std::uint32_t>(pid), process->entry);
  if (!set) return tl::unexpected(set.error());
  free_slots_.pop_front();
  Watched* raw = process.get();
  by_slot_[raw->entry.slot] = raw;
  processes_.emplace(key, std::move(process));
  return raw;
}

Result<void> HostProbes::Impl::watch(const ProcessKey& key, int pid) {
  const auto gone = [&] {
    return fail(ErrorCode::kNotFound, fmt::format("process {} is gone", pid));
  };
  if (start_ticks_of(root_, pid) != key.start_ticks) return gone();
  auto process = admit(key, pid);
  if (!process) return tl::unexpected(process.error());
  auto scanned = rescan(**process);
  // The pid may have changed hands while we looked.
  if (start_ticks_of(root_, pid) != key.start_ticks) {
    unwatch(key);
    return gone();
  }
  return scanned;
}

Result<void> HostProbes::Impl::rescan(Watched& process) {
  auto maps = read_file(fmt::format("{}/proc/{}/maps", root_, process.pid), limits::kMapsBytes);
  if (!maps) {
    blame(process, reason_of(maps.error()), maps.error().message);
    process.refused = process.files.empty();
    return tl::unexpected(maps.error());
  }
  Result<void> outcome;
  for (const ProbeLibrary& library : probed_libraries(*maps)) {
    if (process.seen_libraries.contains({library.device, library.inode})) continue;
    auto attached = attach_library(process, library);
    if (attached) {
      process.seen_libraries.insert({library.device, library.inode});
    } else {
      blame(process, reason_of(attached.error()), attached.error().message);
      process.refused = process.files.empty();
      outcome = std::move(attached);
    }
  }
  return outcome;
}

Result<Fd> HostProbes::Impl::open_library(const Watched& process,
                                          const ProbeLibrary& library) const {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  // map_files works after the file is deleted and in other mount namespaces.
  Fd mapped(
      ::open(fmt::format("{}/proc/{}/map_files/{}", root_, process.pid, library.map_file).c_str(),
             kFlags));
  if (mapped.valid()) return mapped;
  const int error = errno;
  Fd named(
      ::open(fmt::format("{}/proc/{}/root{}", root_, process.pid, library.path).c_str(), kFlags));
  if (named.valid()) return named;
  return fail_errno(error,
                    fmt::format("{} of process {} cannot be opened", library.path, process.pid),
                    "needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN");
}

Result<void> HostProbes::Impl::attach_library(Watched& process, const ProbeLibrary& library) {
  auto opened = open_library(process, library);
  if (!opened) return tl::unexpected(opened.error());
  struct stat info {};
  if (fstat(opened->get(), &info) != 0) return fail_errno(errno, library.path);
  for (ProbedFile& file : files_) {
    if (file.device == info.st_dev && file.inode == info.st_ino) return use_file(process, file);
  }
  ProbedFile::Options options;
  options.multi = multi_;
  options.long_nops = long_nops_;
  options.budget_share = config_.budget_share;
  options.link_id = ++last_link_;
  for (const auto& build : config_.accepted) {
    options.accepted.emplace_back(build.build_id, build.layout);
  }
  auto planned = ProbedFile::plan(std::move(*opened), library.kind, library.path, options);
  if (!planned) {
    blame(process, Reason::kNoSymbols,
          fmt::format("{}: {}", library.path, planned.error().message));
    return {};
  }
  if (!planned->has_functions()) {
    // Most libtorch_cuda take NCCL from elsewhere: nothing to say then.
    if (planned->foreign_architecture()) {
      blame(process, Reason::kForeignArchitecture, library.path);
    } else if (!planned->single_stepped().empty()) {
      blame(process, Reason::kSingleStepped, library.path);
    } else if (library.kind != LibraryKind::kTorchCuda) {
      blame(process, Reason::kNoSymbols, library.path);
    }
    return {};
  }
  files_.push_back(std::move(*planned));
  ProbedFile& file = files_.back();
  // The process must expect the link before its first hit.
  auto used = use_file(process, file);
  if (used) used = file.attach(*programs_);
  if (!used) {
    std::erase(process.files, file.link_id());
    files_.pop_back();
    return used;
  }
  last_attach_ = file.last_attach();
  return {};
}

Result<void> HostProbes::Impl::use_file(Watched& process, ProbedFile& file) {
  const auto known = std::find(process.files.begin(), process.files.end(), file.link_id());
  if (known != process.files.end()) return {};
  if (process.files.size() >= RUNG_PROBE_LINKS) {
    blame(process, Reason::kTableFull, "more library files than one process may have");
    return fail(ErrorCode::kUnavailable, "the process maps more library files than are followed");
  }
  process.entry.links[process.files.size()] = file.link_id();
  auto set = programs_->set_process(static_cast<std::uint32_t>(process.pid), process.entry);
  if (!set) return set;
  process.files.push_back(file.link_id());
  if (std::exchange(process.refused, false)) {
    process.problem = Reason::kNone;
    process.problem_detail.clear();
  }
  process.since = unix_ns(unix_now_ns());
  file.users.insert(process.key);
  if (file.is_nccl() && !file.layout_known()) {
    blame(process, Reason::kUnknownBuild,
          fmt::format("NCCL build {} is not on the accepted list",
                      file.build_id().empty() ? "without id" : file.build_id()));
  }
  if (!file.single_stepped().empty()) {
    std::string names;
    for (const std::string& name : file.single_stepped())
      names += (names.empty() ? "" : " ") + name;
    blame(process, Reason::kSingleStepped, "not probed: " + names);
  }
  if (file.governor.thinned()) process.thinned_ever = true;
  return {};
}

void HostProbes::Impl::blame(Watched& process, Reason reason, std::string detail) {
  if (process.problem == Reason::kNone) process.problem = reason;
  const std::string text = printable(detail);
  if (process.problem_detail.find(text) != std::string::npos ||
      process.problem_detail.size() > limits::kNameBytes) {
    return;
  }
  process.problem_detail += (process.problem_detail.empty() ? "" : "; ") + text;
}

ProbedFile* HostProbes::Impl::file_by_id(std::uint32_t link_id) {
  return const_cast<ProbedFile*>(std::as_const(*this).file_by_id(link_id));
}

const ProbedFile* HostProbes::Impl::file_by_id(std::uint32_t link_id) const {
  for (const ProbedFile& file : files_) {
    if (file.link_id() == link_id) return &file;
  }
  return nullptr;
}

void HostProbes::Impl::unwatch(const ProcessKey& key) {
  const auto found = processes_.find(key);
  if (found == processes_.end()) return;
  const Watched& process = *found->second;
  programs_->erase_process(static_cast<std::uint32_t>(process.pid));
  for (const auto& [tid, thread] : programs_->threads()) {
    if (thread.slot == process.entry.slot) programs_->erase_thread(tid);
  }
  if (process.counted.entered[RUNG_CALL_POINT_TO_POINT] > 0) {
    for (const auto& [peer, counts] : programs_->peers()) {
      if (peer.slot == process.entry.slot) programs_->erase_peer(peer);
    }
  }
  for (ProbedFile& file : files_) {
    if (file.users.erase(key) > 0 && file.users.empty()) file.unused_since_mono = mono_now_ns();
  }
  comms_over_bound_gone_ += process.tracker.over_bound();
  by_slot_[process.entry.slot] = nullptr;
  free_slots_.push_back(process.entry.slot);
  last_shares_.erase(key);
  processes_.erase(found);
}

}  // namespace rung
