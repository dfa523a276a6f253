// Coverage: for each (rank, rung), what was really reached, and why no further.
#pragma once

#include <cstdint>
#include <string>

#include "model/time.h"

namespace rung {

// Where evidence comes from. Values are part of recordings: only ever append.
enum class Rung : std::uint8_t { kFleet, kHost, kState, kRas, kNccl, kDevice, kCounters, kFile };
const char* name_of(Rung rung);  // "fleet", "host", ...

enum class Stage : std::uint8_t {
  kNotApplicable,
  kNotRequested,
  kRequested,
  kLoaded,
  kAttached,
  kFlowing,
  kYielded,
  kDormant,
  kStale,
  kRefused,
};
const char* name_of(Stage stage);  // "not_applicable", ...

// Closed list of reasons. Values are part of recordings: only ever append.
enum class Reason : std::uint8_t {
  kNone,
  kNoPermission,       // a capability or a right is missing
  kNoKernelSupport,    // BPF, BTF or uprobes are not there
  kNoLibrary,          // the library is not mapped in this process
  kNoSymbols,          // the library exports none of the functions
  kUnknownBuild,       // a build id that is not on the accepted list
  kSingleStepped,      // the function could only be probed at a price we do not pay
  kCanaryFailed,       // our own canary did not survive
  kOverBudget,         // thinned or detached by the governor
  kTableFull,          // a bounded table has no room
  kNoDevice,           // no GPU, no driver or no NVML on this host
  kVendorCallBlocked,  // a vendor call has not returned
  kVendorError,        // a vendor call returned an error
  kProcessGone,
  kNotOurs,  // the reader may not see it
  kForeignArchitecture,
  kInternal,
};
const char* name_of(Reason reason);

struct RungCoverage {
  Rung rung = Rung::kFleet;
  Stage stage = Stage::kNotRequested;
  Reason reason = Reason::kNone;
  std::string detail;  // free text for people: "launch probes 1 s of every 10 s"
  UnixNs since{};
  std::uint64_t lost = 0;  // records known to be lost on this rung for this rank
};

}  // namespace rung
