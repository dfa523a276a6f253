#include "agent/discovery.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/files.h"
#include "base/host.h"
#include "model/limits.h"

namespace rung {
namespace {

// A young process may still load CUDA any moment (an interpreter does within seconds); an old one
// that has not is looked at rarely, since reading its maps costs up to a millisecond.
constexpr std::chrono::seconds kYoung{60};
constexpr std::chrono::seconds kLookAgainYoung{1};
constexpr std::chrono::seconds kLookAgainOld{15};
// Old processes are spread over this many scans so that no tick pays for all.
constexpr int kSpread = 5;
// The whole tree (one stat per process) is read this often; between, only new pids are.
constexpr std::chrono::seconds kTreeEvery{5};

Observation about(const ProcessKey& process, UnixNs now, Source source, Evidence what) {
  return {Origin{source, Rung::kFleet, process, now, 0}, std::move(what)};
}

bool same(const ProcessIdentity& a, const ProcessIdentity& b) {
  const auto builds = [](const ProcessIdentity& identity) {
    std::string text;
    for (const LibraryFingerprint& library : identity.libraries) {
      text += library.path + '\n' + library.build_id + '\n';
    }
    return text;
  };
  return a.job == b.job && a.attempt == b.attempt && a.rank == b.rank &&
         a.world_size == b.world_size && a.conflict == b.conflict && a.label == b.label &&
         builds(a) == builds(b);
}

std::vector<Ancestor> ancestors_of(const ProcFs& procfs, std::int32_t pid,
                                   const ProcessTree& tree) {
  std::vector<Ancestor> out;
  for (const ProcessAncestor& ancestor : procfs.ancestors(pid, tree)) {
    out.push_back({ancestor.key, ancestor.uid, ancestor.comm});
  }
  return out;
}

// NVML may map libcuda in our own vendor workers: they are no job.
bool is_ours(const Candidate& candidate) {
  static const std::string own = read_link("/proc/self/exe").value_or("");
  const bool descends =
      std::any_of(candidate.ancestors.begin(), candidate.ancestors.end(),
                  [](const Ancestor& ancestor) { return ancestor.key.pid == ::getpid(); });
  return descends || (!own.empty() && candidate.exe == own);
}

}  // namespace

void Discovery::scan(UnixNs now, std::vector<Observation>& out) {
  if (now >= next_tree_) {
    if (Result<ProcessTree> tree = procfs_.tree()) tree_ = std::move(*tree);
    next_tree_ = now + kTreeEvery;
  }
  forget_gone(now, out);
  if (const auto pids = procfs_.list_pids()) {
    std::set<std::int32_t> present(pids->begin(), pids->end());
    std::erase_if(others_, [&](const auto& entry) { return !present.contains(entry.first); });
    for (const std::int32_t pid : *pids) look_at(pid, now);
  }
  hints_.clear();
  identify(now, out);
}

void Discovery::forget_gone(UnixNs now, std::vector<Observation>& out) {
  for (auto entry = found_.begin(); entry != found_.end();) {
    if (procfs_.alive(entry->first)) {
      ++entry;
      continue;
    }
    out.push_back(about(entry->first, now, Source::kProcfs, ProcessExit{}));
    entry = found_.erase(entry);
  }
}

void Discovery::look_at(std::int32_t pid, UnixNs now) {
  const auto watched = std::find_if(found_.begin(), found_.end(),
                                    [&](const auto& entry) { return entry.first.pid == pid; });
  if (watched != found_.end()) return;
  const auto known = others_.find(pid);
  const bool hinted = std::find(hints_.begin(), hints_.end(), pid) != hints_.end();
  if (known != others_.end() && now < known->second.look_again && !hinted) return;

  const Result<ProcessKey> key = procfs_.key(pid);
  if (!key) return;
  if (take(*key)) {
    others_.erase(pid);
    return;
  }
  Other& other = others_[pid];
  if (other.key != *key) other = Other{*key, now, now};
  const bool young = now - other.first_seen < kYoung;
  const std::chrono::seconds spread{young ? 0 : pid % kSpread};
  other.look_again = now + (young ? kLookAgainYoung : kLookAgainOld) + spread;
}

bool Discovery::take(const ProcessKey& key) {
  const auto libraries = procfs_.mapped_libraries(key.pid);
  if (!libraries) return false;
  const auto cuda =
      std::find_if(libraries->begin(), libraries->end(),
                   [](const MappedLibrary& library) { return library.kind == LibraryKind::kCuda; });
  if (cuda == libraries->end() || found_.size() >= limits::kRanksPerNode) return false;

  Found found;
  found.key = key;
  found.candidate.key = key;
  if (const auto status = procfs_.status(key.pid)) found.candidate.uid = status->uid;
  if (const auto cgroup = procfs_.cgroup(key.pid)) found.candidate.cgroup = *cgroup;
  if (const auto env = procfs_.environ(key.pid, identity_env_keys())) found.candidate.env = *env;
  if (const auto exe = procfs_.exe(key.pid)) found.candidate.exe = *exe;
  if (const auto stat = procfs_.stat(key.pid)) found.candidate.session = stat->session;
  // The tree may be older than this process.
  if (!tree_.nodes.contains(key.pid)) {
    if (Result<ProcessTree> tree = procfs_.tree()) tree_ = std::move(*tree);
  }
  found.candidate.ancestors = ancestors_of(procfs_, key.pid, tree_);
  if (is_ours(found.candidate)) return false;
  found.candidate.libcuda_address = cuda->start;
  found_.emplace(key, std::move(found));
  return true;
}

void Discovery::refresh_libraries(Found& found) {
  const auto libraries = procfs_.mapped_libraries(found.key.pid);
  if (!libraries) return;
  found.identity.libraries.clear();
  for (const MappedLibrary& library : *libraries) {
    const Result<LibraryFacts> facts = procfs_.fingerprint(found.key.pid, library);
    if (!facts) {
      found.identity.libraries.push_back({library.kind, library.path, "", ""});
      continue;
    }
    found.identity.libraries.push_back(facts->fingerprint);
    found.identity.simulated = found.identity.simulated || facts->simulated;
  }
}

void Discovery::identify(UnixNs now, std::vector<Observation>& out) {
  std::vector<Candidate> candidates;
  for (const auto& [key, found] : found_) candidates.push_back(found.candidate);
  const std::vector<ProcessIdentity> identities = identities_.update(candidates);
  static const std::string host = host_name();
  std::size_t next = 0;
  for (auto& [key, found] : found_) {
    const ProcessIdentity before = found.identity;
    const bool fresh = before.job.text.empty();
    found.identity = identities[next++];
    found.identity.host = host;
    found.identity.libraries = before.libraries;
    found.identity.simulated = before.simulated;
    const bool has_nccl = std::any_of(
        before.libraries.begin(), before.libraries.end(), [](const LibraryFingerprint& library) {
          return library.kind == LibraryKind::kNccl || library.kind == LibraryKind::kTorchCuda;
        });
    if (fresh || !has_nccl) refresh_libraries(found);
    if (fresh || !same(before, found.identity)) {
      out.push_back(about(key, now, Source::kScheduler, found.identity));
    }
  }
}

}  // namespace rung
