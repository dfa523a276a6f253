#include "sources/scheduler/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "model/limits.h"

namespace rung {
namespace {

constexpr std::int32_t kMostAttempts = 1'000'000;

template <std::size_t N>
bool one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Programs that keep a user's sessions: jobs below one have nothing to do with each other. (A comm
// is cut at 15 bytes.)
bool is_session_manager(std::string_view comm) {
  constexpr std::array<std::string_view, 33> kNames = {"systemd",
                                                       "init",
                                                       "(sd-pam)",
                                                       "sshd",
                                                       "sshd-session",
                                                       "login",
                                                       "tmux: server",
                                                       "tmux",
                                                       "screen",
                                                       "SCREEN",
                                                       "gnome-terminal-",
                                                       "konsole",
                                                       "xterm",
                                                       "code",
                                                       "code-server",
                                                       "node",
                                                       "dbus-daemon",
                                                       "cron",
                                                       "crond",
                                                       "atd",
                                                       "containerd-shim",
                                                       "containerd",
                                                       "dockerd",
                                                       "conmon",
                                                       "kubelet",
                                                       "supervisord",
                                                       "tini",
                                                       "dumb-init",
                                                       "docker-init",
                                                       "catatonit",
                                                       "jupyter-lab",
                                                       "jupyter-noteboo",
                                                       "jupyterhub-sing"};
  return one_of(kNames, comm);
}

// Programs that start whatever they are told to: as a common ancestor one is weak evidence.
bool is_shell(std::string_view comm) {
  constexpr std::array<std::string_view, 24> kNames = {
      "bash", "sh",      "dash",  "zsh",    "fish",   "ksh",     "tcsh",    "csh",
      "ash",  "busybox", "sudo",  "su",     "env",    "nohup",   "setsid",  "time",
      "nice", "timeout", "xargs", "script", "strace", "numactl", "taskset", "stdbuf"};
  return one_of(kNames, comm);
}

// Ancestors that may be a launcher: of the same user, below the session manager.
std::vector<Ancestor> launchers_of(const Candidate& candidate) {
  std::vector<Ancestor> out;
  for (const Ancestor& ancestor : candidate.ancestors) {
    if (ancestor.key.pid <= 1 || ancestor.uid != candidate.uid) break;
    if (is_session_manager(ancestor.comm)) break;
    out.push_back(ancestor);
  }
  return out;
}

std::string value_of(const Candidate& candidate, const char* key) {
  const auto found = candidate.env.find(key);
  return found == candidate.env.end() ? std::string() : found->second;
}

// What sets processes of one launcher apart: equal in all ranks of a job.
std::string split_of(const Candidate& candidate, const RankClaim& claim) {
  // A program that starts workers itself gives them no rank before exec; interactive sessions
  // (notebooks, terminals) of one server differ in their session.
  if (!claim.rank) return fmt::format("unranked session={}", candidate.session);
  return fmt::format("world={} master={}:{} run={}", claim.world_size.value_or(0),
                     value_of(candidate, "MASTER_ADDR"), value_of(candidate, "MASTER_PORT"),
                     value_of(candidate, "TORCHELASTIC_RUN_ID"));
}

std::string label_of(const Candidate& candidate, const std::string& job) {
  const std::string run = value_of(candidate, "TORCHELASTIC_RUN_ID");
  const std::string slurm = value_of(candidate, "SLURM_JOB_ID");
  std::string label;
  if (job.starts_with("slurm:")) label = value_of(candidate, "SLURM_JOB_NAME");
  if (label.empty() && run != "none") label = run;
  if (label.empty() && job.starts_with("k8s:")) label = value_of(candidate, "HOSTNAME");
  if (label.empty() && !slurm.empty() && !job.starts_with("slurm:")) {
    label = "claims Slurm job " + slurm;
  }
  return printable(label, limits::kNameBytes);
}

std::int32_t claimed_attempt(const Candidate& candidate) {
  std::int32_t attempt = 0;
  for (const char* key : {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"}) {
    const auto count = parse_number<std::int32_t>(value_of(candidate, key));
    if (count && *count > 0 && *count <= kMostAttempts) attempt = std::max(attempt, *count);
  }
  return attempt;
}

std::string base_name(const std::string& path) {
  return printable(path.substr(path.rfind('/') + 1), limits::kNameBytes);
}

std::string run_text(const ProcessKey& key) {
  return fmt::format("run:{}-{}", key.pid, key.start_ticks);
}

// Whether `child` is part of what `parent` does and no rank of its own: forked from it without
// exec, or started by it with its environment.
bool is_helper(const Candidate& child, const RankClaim& child_claim, const Candidate& parent,
               const RankClaim& parent_claim) {
  if (child.libcuda_address != 0 && child.libcuda_address == parent.libcuda_address) return true;
  return child_claim.rank && child_claim.rank == parent_claim.rank;
}

bool starts_before(const ProcessKey& a, const ProcessKey& b) {
  return std::pair(a.start_ticks, a.pid) < std::pair(b.start_ticks, b.pid);
}

}  // namespace

struct IdentityTable::Member {
  const Candidate* candidate = nullptr;
  RankClaim claim;
  std::optional<std::string> group_job;  // from the control group
  std::vector<Ancestor> launchers;       // ancestors that may be one, nearest first
  std::optional<ProcessKey> helper_of;   // the rank that this process is part of
  ProcessKey launcher;
  bool weak_launcher = false;  // a shell: it joins only what ranks say belongs together
  std::string split;
  std::string job;
  ProcessIdentity identity;

  const ProcessKey& key() const { return candidate->key; }

  // `below`: how many candidates there are below each ancestor.
  void choose_launcher(const std::map<ProcessKey, int>& below) {
    launcher = key();
    const bool alone = claim.world_size == 1;
    for (const Ancestor& ancestor : launchers) {
      if (alone || below.at(ancestor.key) < 2) continue;
      // Two programs without ranks below one shell have nothing to do with each other.
      if (!claim.rank && is_shell(ancestor.comm)) return;
      launcher = ancestor.key;
      weak_launcher = is_shell(ancestor.comm);
      return;
    }
    const auto program = std::find_if(launchers.begin(), launchers.end(), [](const auto& ancestor) {
      return !is_shell(ancestor.comm);
    });
    if (program != launchers.end()) launcher = program->key;
  }
};

std::vector<ProcessIdentity> IdentityTable::update(const std::vector<Candidate>& candidates) {
  ++updates_;
  Members members(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Member& member = members[i];
    member.candidate = &candidates[i];
    member.group_job = job_of_cgroup(candidates[i].cgroup, candidates[i].uid);
    const bool in_slurm = member.group_job && member.group_job->starts_with("slurm:");
    member.claim = rank_claim(candidates[i].env, in_slurm);
    member.launchers = launchers_of(candidates[i]);
    member.split = split_of(candidates[i], member.claim);
  }
  find_helpers(&members);
  assign_jobs(&members);
  remember(&members);
  assign_ranks(&members);
  forget_ended();
  std::vector<ProcessIdentity> out;
  out.reserve(members.size());
  for (Member& member : members) out.push_back(std::move(member.identity));
  return out;
}

void IdentityTable::find_helpers(Members* members) const {
  std::map<ProcessKey, const Member*> by_key;
  for (const Member& member : *members) by_key[member.key()] = &member;
  for (Member& member : *members) {
    // Once a helper, always one: when its rank dies first it must not look like a restarted rank.
    const auto known = processes_.find(member.key());
    if (known != processes_.end() && known->second.helper_of) {
      member.helper_of = known->second.helper_of;
      continue;
    }
    for (const Ancestor& ancestor : member.launchers) {
      const auto parent = by_key.find(ancestor.key);
      if (parent == by_key.end()) continue;
      const Member& above = *parent->second;
      // The farthest counts: helpers have helpers.
      if (is_helper(*member.candidate, member.claim, *above.candidate, above.claim)) {
        member.helper_of = ancestor.key;
      }
    }
  }
}

void IdentityTable::assign_jobs(Members* members) {
  std::map<ProcessKey, int> below;
  for (const Member& member : *members) {
    for (const Ancestor& ancestor : member.launchers) below[ancestor.key] += !member.helper_of;
  }
  std::vector<Member*> fresh;
  for (Member& member : *members) {
    member.choose_launcher(below);
    const auto known = processes_.find(member.key());
    if (known != processes_.end()) {
      member.job = known->second.job;
    } else if (!member.helper_of) {
      fresh.push_back(&member);
    }
  }
  // In the order of their start, so that numbering does not depend on the order of pids.
  std::sort(fresh.begin(), fresh.end(),
            [](const Member* a, const Member* b) { return starts_before(a->key(), b->key()); });
  for (Member* member : fresh) place(member, *members);
}

void IdentityTable::place(Member* member, const Members& members) {
  if (member->group_job) {
    member->job = *member->group_job;
    jobs_[member->job].launcher = member->launcher;
    return;
  }
  // Below a shell, and where a job is complete with one rank, a second process of the same rank is
  // another job. Below a real launcher it is a false claim, which judge_rank() settles.
  const bool strict = member->weak_launcher || member->claim.world_size == 1;
  const auto holds_my_rank = [&](const Member& other, const std::string& job) {
    return !other.helper_of && other.job == job && member->claim.rank &&
           other.claim.rank == member->claim.rank;
  };
  const auto may_join = [&](const std::string& job) {
    return !strict || std::none_of(members.begin(), members.end(),
                                   [&](const Member& other) { return holds_my_rank(other, job); });
  };
  for (const Member& other : members) {
    const bool sibling = !other.job.empty() && !other.helper_of && !other.group_job &&
                         other.launcher == member->launcher && other.split == member->split;
    if (!sibling || !may_join(other.job)) continue;
    member->job = other.job;
    jobs_[member->job].launcher = member->launcher;
    return;
  }
  if (!member->weak_launcher) {  // all of its processes may have ended and start again
    for (const auto& [text, job] : jobs_) {
      if (job.launcher != member->launcher || job.split != member->split) continue;
      if (!may_join(text)) continue;
      member->job = text;
      return;
    }
  }
  const std::string wanted = run_text(member->weak_launcher ? member->key() : member->launcher);
  member->job = wanted;
  for (int number = 2; jobs_.contains(member->job); ++number) {
    member->job = fmt::format("{}.{}", wanted, number);
  }
  Job& job = jobs_[member->job];
  job.launcher = member->launcher;
  job.split = member->split;
}

void IdentityTable::remember(Members* members) {
  std::map<ProcessKey, Remembered> now;
  for (const Member& member : *members) {
    if (!member.job.empty()) now[member.key()] = {member.job, member.helper_of};
  }
  for (Member& member : *members) {
    if (!member.job.empty()) continue;
    const auto parent = now.find(*member.helper_of);
    // Its parent is itself a helper that is seen for the first time.
    member.job = parent != now.end() ? parent->second.job : run_text(*member.helper_of);
    now[member.key()] = {member.job, member.helper_of};
  }
  for (const Member& member : *members) jobs_[member.job].last_seen = updates_;
  processes_ = std::move(now);
}

void IdentityTable::assign_ranks(Members* members) {
  std::map<std::string, std::size_t> sizes;
  std::vector<std::pair<bool, Member*>> order;  // newcomers after who holds his rank already
  for (Member& member : *members) {
    sizes[member.job] += !member.helper_of;
    const auto& ranks = jobs_[member.job].ranks;
    const auto held = ranks.find(member.claim.rank.value_or(0));
    order.emplace_back(held == ranks.end() || held->second.holder != member.key(), &member);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return starts_before(a.second->key(), b.second->key());
  });
  Taken taken;
  for (const auto& [newcomer, member] : order) judge_rank(member, sizes[member->job], &taken);
}

void IdentityTable::judge_rank(Member* member, std::size_t job_members, Taken* taken) {
  ProcessIdentity& who = member->identity;
  Job& job = jobs_[member->job];
  who.job = JobId{member->job};
  who.uid = member->candidate->uid;
  who.executable = base_name(member->candidate->exe);
  who.label = label_of(*member->candidate, member->job);
  who.launcher = job.launcher;
  who.attempt = claimed_attempt(*member->candidate);
  who.conflict = member->claim.problem;
  who.world_size = member->claim.world_size;
  if (member->helper_of) {
    who.conflict = fmt::format("child of process {}, no rank of its own", member->helper_of->pid);
    return;
  }
  std::optional<std::int32_t> rank = member->claim.rank;
  const bool says_nothing = member->claim.source == "SLURM_PROCID" && who.world_size == 1;
  if (says_nothing && job_members > 1) {  // one task that starts many processes itself
    rank.reset();
    who.world_size.reset();
  }
  if (!rank && !who.world_size && who.conflict.empty() && job_members == 1) {
    rank = 0;
    who.world_size = 1;
  }
  if (!rank) return;
  const auto [holder, free] = taken->try_emplace({member->job, *rank}, member->key());
  if (!free) {
    who.conflict = fmt::format("claims rank {}, which process {} holds", *rank, holder->second.pid);
    return;
  }
  if (job.ranks.size() >= limits::kRanksPerNode * 4 && !job.ranks.contains(*rank)) {
    std::erase_if(job.ranks, [&](const auto& entry) {
      return !taken->contains({member->job, entry.first});
    });
  }
  RankHistory& history = job.ranks[*rank];
  if (history.holder != member->key()) {
    history.holder = member->key();
    ++history.processes;
  }
  who.rank = RankId{*rank};
  who.local_rank = member->claim.local_rank;
  who.attempt = std::max(who.attempt, history.processes - 1);
}

void IdentityTable::forget_ended() {
  std::vector<std::pair<std::uint64_t, std::string>> ended;
  for (const auto& [text, job] : jobs_) {
    if (job.last_seen != updates_) ended.emplace_back(job.last_seen, text);
  }
  if (ended.size() <= limits::kEndedJobs) return;
  std::sort(ended.begin(), ended.end());
  ended.resize(ended.size() - limits::kEndedJobs);
  for (const auto& [seen, text] : ended) jobs_.erase(text);
  forgotten_jobs_ += ended.size();
}

}  // namespace rung
