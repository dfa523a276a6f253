#include "diagnose/text.h"

#include <fmt/format.h>

#include <limits>

namespace rung {
namespace {

constexpr double kNsPerSecond = 1e9;
// Of a rank set in a sentence; the verdict carries the whole set.
constexpr std::size_t kLongestRanks = 120;

bool has_root(CollectiveOp op) {
  return op == RUNG_OP_REDUCE || op == RUNG_OP_BROADCAST || op == RUNG_OP_GATHER ||
         op == RUNG_OP_SCATTER;
}

// What the ranks that wait at a collective asked for, if a tail still holds it.
const TailEntry* entry_of_waiter(const CommView& comm, const WaitPoint& point) {
  for (const MemberView& member : comm.members) {
    const auto entered = entered_by(member);
    if (!entered || *entered <= point.index) continue;
    if (const TailEntry* entry = tail_entry(member, point.index)) return entry;
  }
  return nullptr;
}

}  // namespace

double seconds_of(std::chrono::nanoseconds d) {
  return static_cast<double>(d.count()) / kNsPerSecond;
}

std::string duration_text(std::chrono::nanoseconds d) {
  const double seconds = seconds_of(d);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(d).count();
  return fmt::format("{} min {} s", whole / 60, whole % 60);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

std::string ranks_text(const RankSet& ranks) {
  const std::size_t count = ranks.count();
  if (count == 0) return "no rank";
  std::string text = ranks.text();
  if (text.size() > kLongestRanks) {
    text.resize(text.rfind(',', kLongestRanks));
    text += fmt::format(" and more, {} in all", count);
  }
  return fmt::format("{} {}", count == 1 ? "rank" : "ranks", text);
}

std::string count_text(std::size_t ranks, const char* one, const char* many) {
  return ranks == 1 ? fmt::format("1 rank {}", one) : fmt::format("{} ranks {}", ranks, many);
}

std::string signature_text(const CollectiveSignature& what) {
  const std::uint64_t element = nccl_datatype_bytes(what.datatype);
  const bool fits =
      element != 0 && what.count <= std::numeric_limits<std::uint64_t>::max() / element;
  std::string out =
      fmt::format("{} of {} {}", name_of(what.op), what.count, nccl_datatype_name(what.datatype));
  if (fits) out += fmt::format(" ({})", bytes_text(what.count * element));
  if (has_root(what.op)) out += fmt::format(", root {}", what.root_or_peer);
  return out;
}

std::string comm_text(const CommView& comm) {
  return fmt::format("communicator 0x{:016x}", comm.id.hash);
}

std::string point_text(const JobView& view, const WaitPoint& point) {
  const CommView& comm = view.comms[point.comm];
  switch (point.kind) {
    case WaitPoint::Kind::kInit:
      return fmt::format("the making of {}", comm_text(comm));
    case WaitPoint::Kind::kReceive:
      return fmt::format("receive {} from rank {} on {}", point.index, point.peer.value,
                         comm_text(comm));
    case WaitPoint::Kind::kSend:
      return fmt::format("send {} to rank {} on {}", point.index, point.peer.value,
                         comm_text(comm));
    case WaitPoint::Kind::kCollective:
      break;
  }
  const TailEntry* entry = entry_of_waiter(comm, point);
  return fmt::format("{} on {}, index {}",
                     entry != nullptr ? signature_text(entry->what) : "a collective",
                     comm_text(comm), point.index);
}

std::string last_call_text(const JobView& view, const RankView& rank) {
  if (rank.threads.empty()) return "no call of it was seen";
  const ThreadCall& last = rank.threads.front();
  return fmt::format("its last call was {}, entered {} ago",
                     last.function.empty() ? name_of(last.call) : last.function.c_str(),
                     duration_text(view.now - last.entered));
}

}  // namespace rung
