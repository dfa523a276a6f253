#include "diagnose/facts.h"

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/activity.h"
#include "diagnose/text.h"

namespace rung {
namespace {

Fact fact_of(const char* source, Rung rung, EvidenceClass evidence, std::string text,
             std::optional<double> value, std::string unit) {
  Fact out;
  out.source = source;
  out.rung = rung;
  out.evidence = evidence;
  out.fact = std::move(text);
  out.value = value;
  out.unit = std::move(unit);
  return out;
}

}  // namespace

Fact procfs_fact(const RankView& rank, std::string text, std::optional<double> value,
                 std::string unit) {
  Fact out = fact_of(name_of(Source::kProcfs), Rung::kFleet, EvidenceClass::kKernelHost,
                     std::move(text), value, std::move(unit));
  out.rank = rank.rank;
  return out;
}

Fact probe_fact(const RankView& rank, std::string text, std::optional<double> value,
                std::string unit) {
  Fact out = fact_of(name_of(Source::kHostProbes), Rung::kHost, EvidenceClass::kKernelHost,
                     std::move(text), value, std::move(unit));
  out.rank = rank.rank;
  return out;
}

Fact peers_fact(std::string text, std::optional<double> value, std::string unit) {
  return fact_of(name_of(Source::kHostProbes), Rung::kHost, EvidenceClass::kPeers, std::move(text),
                 value, std::move(unit));
}

Fact observer_fact(std::string text, std::optional<double> value, std::string unit) {
  return fact_of(name_of(Source::kAgent), Rung::kHost, EvidenceClass::kKernelHost, std::move(text),
                 value, std::move(unit));
}

Fact last_call_fact(const JobView& view, const RankView& rank) {
  if (rank.threads.empty()) return probe_fact(rank, "no call of it was seen");
  const ThreadCall& last = rank.threads.front();
  Fact out = probe_fact(
      rank,
      fmt::format("its last call was {} ({}); it has made none since",
                  last.function.empty() ? "not named" : last.function, name_of(last.call)),
      seconds_of(view.now - last.entered), "s");
  out.duration_kind = DurationKind::kHostCall;
  return out;
}

std::optional<Fact> state_fact(const RankView& rank) {
  const auto state = rank.state.maybe();
  if (!state) return std::nullopt;
  std::string text = fmt::format("its process is {}", name_of(*state));
  if (!rank.wait_channel.empty() && *state != ProcessState::kRunning) {
    text += fmt::format(" in {}", rank.wait_channel);
  }
  return procfs_fact(rank, std::move(text));
}

std::optional<Fact> busy_device_fact(const RankView& rank) {
  if (!device_busy(rank).match([](bool busy) { return busy; }, [](Unknown) { return false; })) {
    return std::nullopt;
  }
  Fact out = fact_of(name_of(Source::kNvml), Rung::kFleet, EvidenceClass::kGpu,
                     "some kernel is resident on its GPU", rank.device->utilization_percent, "%");
  out.rank = rank.rank;
  return out;
}

std::optional<Fact> count_fact(const JobView& view, const WaitPoint& point, RankId rank) {
  if (point.kind != WaitPoint::Kind::kCollective) return std::nullopt;
  const CommView& comm = view.comms[point.comm];
  const auto member = std::find_if(comm.members.begin(), comm.members.end(),
                                   [&](const MemberView& m) { return m.rank == rank; });
  if (member == comm.members.end()) return std::nullopt;
  const auto entered = entered_by(*member);
  if (!entered) return std::nullopt;
  const bool memory = comm.id.source == CommId::Source::kMemory;
  Fact out = fact_of(name_of(Source::kHostProbes), Rung::kHost,
                     memory ? EvidenceClass::kNcclMemory : EvidenceClass::kKernelHost,
                     fmt::format("it has entered {} collectives on {}, others up to {}", *entered,
                                 comm_text(comm), match_collectives(comm).frontier),
                     static_cast<double>(*entered), "collectives");
  out.rank = rank;
  return out;
}

}  // namespace rung
