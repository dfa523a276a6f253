// What control groups and environments say: the parts of identity that look at one process.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "model/limits.h"
#include "sources/scheduler/identity.h"

namespace rung {
namespace {

constexpr std::size_t kMostIdBytes = 64;

bool all_of(std::string_view text, bool (*accept)(char)) {
  return !text.empty() && text.size() <= kMostIdBytes &&
         std::all_of(text.begin(), text.end(), accept);
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_id_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}

// What follows `prefix` in `part`, when it is a non-empty id.
std::optional<std::string> id_after(std::string_view part, std::string_view prefix,
                                    bool (*accept)(char)) {
  if (!part.starts_with(prefix)) return std::nullopt;
  part.remove_prefix(prefix.size());
  return all_of(part, accept) ? std::optional<std::string>(part) : std::nullopt;
}

// "slurm:JOB.STEP" from parts[at] = job_JOB, parts[at + 1] = step_STEP.
std::optional<std::string> slurm_job(const std::vector<std::string_view>& parts, std::size_t at) {
  if (at + 1 >= parts.size()) return std::nullopt;
  const auto job = id_after(parts[at], "job_", is_digit);
  const auto step = id_after(parts[at + 1], "step_", is_id_char);
  if (!job || !step) return std::nullopt;
  return "slurm:" + *job + "." + *step;
}

// v1: /slurm/uid_1000/job_4242/step_0, or /slurm_NODE/... with several slurmd on a host.
// v2: /system.slice/slurmstepd.scope/job_4242/step_0, or NODE_slurmstepd.scope.
std::optional<std::string> slurm_in(const std::vector<std::string_view>& parts, std::uint32_t uid) {
  if (parts.size() < 4) return std::nullopt;
  if (parts[0] == "slurm" || parts[0].starts_with("slurm_")) {
    const auto owner = id_after(parts[1], "uid_", is_digit);
    if (!owner || parse_number<std::uint32_t>(*owner) != uid) return std::nullopt;
    return slurm_job(parts, 2);
  }
  const bool step_scope = parts[1] == "slurmstepd.scope" || parts[1].ends_with("_slurmstepd.scope");
  return parts[0] == "system.slice" && step_scope ? slurm_job(parts, 2) : std::nullopt;
}

// cgroupfs driver: /kubepods/burstable/podUID/CONTAINER. systemd driver:
// /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/..., '-' of UID as '_';
// both perhaps below /kubelet or /kubelet.slice, whose name is then a prefix.
std::optional<std::string> pod_in(const std::vector<std::string_view>& parts) {
  std::size_t at = 0;
  if (!parts.empty() && (parts[0] == "kubelet" || parts[0] == "kubelet.slice")) at = 1;
  if (at >= parts.size()) return std::nullopt;
  const bool plain = parts[at] == "kubepods";
  const bool slice = parts[at] == "kubepods.slice" || parts[at] == "kubelet-kubepods.slice";
  if (!plain && !slice) return std::nullopt;
  // Guaranteed pods come directly below, others below their class.
  for (std::size_t i = at + 1; i < std::min(parts.size(), at + 3); ++i) {
    if (plain) {
      if (const auto pod = id_after(parts[i], "pod", is_id_char)) return "k8s:" + *pod;
      continue;
    }
    constexpr std::string_view kSlice = ".slice";
    const std::size_t mark = parts[i].find("-pod");
    if (mark == std::string_view::npos || !parts[i].ends_with(kSlice)) continue;
    std::string pod(parts[i].substr(mark + 4, parts[i].size() - mark - 4 - kSlice.size()));
    std::replace(pod.begin(), pod.end(), '_', '-');
    if (all_of(pod, is_id_char)) return "k8s:" + pod;
  }
  return std::nullopt;
}

using Env = std::map<std::string, std::string>;

std::optional<std::int32_t> number_in(const Env& env, const char* key) {
  const auto found = env.find(key);
  if (found == env.end()) return std::nullopt;
  const auto number = parse_number<std::int32_t>(found->second);
  return number && *number >= 0 ? number : std::nullopt;
}

// The variables of one launcher family.
struct Family {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  bool slurm_only;
};
constexpr std::array<Family, 5> kFamilies = {{
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", false},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", false},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", false},
    {"PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", false},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", true},
}};

}  // namespace

const std::vector<std::string_view>& identity_env_keys() {
  static const std::vector<std::string_view> keys = [] {
    std::vector<std::string_view> all = {
        "MASTER_ADDR",  "MASTER_PORT",         "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
        "SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_JOB_NAME",      "HOSTNAME"};
    for (const Family& family : kFamilies) {
      all.insert(all.end(), {family.rank, family.world_size, family.local_rank});
    }
    return all;
  }();
  return keys;
}

std::optional<std::string> job_of_cgroup(std::string_view cgroup, std::uint32_t uid) {
  for (const std::string_view line : split(cgroup, '\n')) {
    // "HIERARCHY:CONTROLLERS:PATH"; the path may itself hold ':'.
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::size_t second = line.find(":/", first + 1);
    if (second == std::string_view::npos) continue;
    const auto parts = split(line.substr(second + 2), '/');
    if (auto job = slurm_in(parts, uid)) return job;
    if (auto job = pod_in(parts)) return job;
  }
  return std::nullopt;
}

RankClaim rank_claim(const Env& env, bool in_slurm) {
  RankClaim claim;
  for (const Family& family : kFamilies) {
    if (family.slurm_only && !in_slurm) continue;
    const auto rank = number_in(env, family.rank);
    if (!rank) continue;
    claim.rank = rank;
    claim.world_size = number_in(env, family.world_size);
    claim.local_rank = number_in(env, family.local_rank);
    claim.source = family.rank;
    break;
  }
  if (claim.world_size == 0) claim.world_size.reset();
  const bool too_big =
      claim.rank && (static_cast<std::size_t>(*claim.rank) >= limits::kRanksPerJob ||
                     (claim.world_size && *claim.rank >= *claim.world_size));
  if (too_big) {
    claim.problem =
        claim.source + "=" + std::to_string(*claim.rank) + " is not below " +
        std::to_string(claim.world_size.value_or(static_cast<std::int32_t>(limits::kRanksPerJob)));
    claim.rank.reset();
  }
  return claim;
}

}  // namespace rung
