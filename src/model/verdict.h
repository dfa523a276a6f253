// Findings of rules and the verdicts that the resolver makes of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/coverage.h"
#include "model/ids.h"
#include "model/rank_set.h"
#include "model/time.h"

namespace rung {

// The closed list of verdict kinds; the strings are stable API.
namespace kind {
inline constexpr std::string_view kStallWaitingForRank = "stall.waiting_for_rank";
inline constexpr std::string_view kStallNoProgress = "stall.no_progress";
inline constexpr std::string_view kHangRankNotJoined = "hang.rank_not_joined";
inline constexpr std::string_view kHangCollectiveMismatch = "hang.collective_mismatch";
inline constexpr std::string_view kHangNoProgress = "hang.no_progress";
inline constexpr std::string_view kInitRankMissing = "init.rank_missing";
inline constexpr std::string_view kRankDead = "rank.dead";
inline constexpr std::string_view kRankStopped = "rank.stopped";
inline constexpr std::string_view kPauseCheckpoint = "pause.checkpoint";
inline constexpr std::string_view kObserverDeliveryStopped = "observer.delivery_stopped";
inline constexpr std::string_view kObserverLossy = "observer.lossy";
inline constexpr std::string_view kObserverOverBudget = "observer.over_budget";
inline constexpr std::string_view kObserverVendorCallBlocked = "observer.vendor_call_blocked";
inline constexpr std::string_view kHealthyComputing = "healthy.computing";
inline constexpr std::string_view kHealthyCommunicating = "healthy.communicating";
inline constexpr std::string_view kUnknown = "unknown.insufficient_evidence";
}  // namespace kind

// "hang" of "hang.no_progress".
std::string_view family_of(std::string_view kind);

enum class Severity : std::uint8_t { kInfo, kWarning, kError };
enum class Confidence : std::uint8_t { kPossible, kLikely, kEstablished };
enum class EvidenceClass : std::uint8_t {
  kGpu,
  kKernelHost,
  kInProcess,
  kNcclMemory,
  kScheduler,
  kPeers
};
const char* name_of(Severity severity);       // "info", "warning", "error"
const char* name_of(Confidence confidence);   // "possible", ...
const char* name_of(EvidenceClass evidence);  // "gpu", "kernel_host", ...

// One fact behind a verdict.
struct Fact {
  std::string source;  // "procfs", "host_probes", "nvml"...
  Rung rung = Rung::kFleet;
  EvidenceClass evidence = EvidenceClass::kKernelHost;
  std::optional<RankId> rank;
  std::optional<DurationKind> duration_kind;
  std::string fact;  // a sentence without final dot
  std::optional<double> value;
  std::string unit;  // "" without value
};

// What a rule found. It knows no confidence: the resolver computes it from the facts.
struct Finding {
  std::string_view kind;
  Severity severity = Severity::kInfo;
  RankSet ranks;               // who is accused or described; may be empty
  RankSet waiting;             // who waits for them
  RankSet unobserved;          // who could not be seen and may be the cause
  std::optional<JobNs> since;  // when the situation began, if known
  bool positive_sign = false;  // process gone, stopped, mismatch: one such fact establishes it
  std::string summary;         // one sentence
  std::vector<Fact> facts;
  std::vector<std::string> not_established;  // what this does not prove
  std::vector<std::string> next;             // what a person can do now
};

struct Verdict {
  std::string kind;
  Severity severity = Severity::kInfo;
  JobId job;
  std::int32_t attempt = 0;
  RankSet ranks;
  RankSet waiting;
  RankSet unobserved;
  std::optional<JobNs> since;
  JobNs detected{};  // first tick at which this verdict stood
  Confidence confidence = Confidence::kPossible;
  std::string summary;
  std::vector<Fact> evidence;
  std::vector<std::string> not_established;
  std::vector<std::string> next;
};

// The exit code of `rung why` for these verdicts: 1 if one is of family hang, rank, init, device,
// slow or observer, 2 if there are only unknown ones, else 0. `fail_on` adds kinds or families that
// count as 1.
int why_exit_code(const std::vector<Verdict>& verdicts, const std::vector<std::string>& fail_on);

}  // namespace rung
