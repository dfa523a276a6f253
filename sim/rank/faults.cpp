#include "rank/faults.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"

namespace rung::sim {
namespace {

constexpr double kForEverSeconds = 1e9;

std::int64_t nanoseconds(const Fault& fault) {
  return static_cast<std::int64_t>(fault.for_s.value_or(kForEverSeconds) * 1e9);
}

}  // namespace

RankFaults::RankFaults(const Scenario& scenario, std::int32_t rank, std::string folder,
                       RankBoard& board)
    : folder_(std::move(folder)), board_(board) {
  for (const Fault& fault : scenario.faults) {
    if (fault.rank == rank) planned_.push_back({fault});
  }
}

void RankFaults::mark_begun(Planned& planned) {
  planned.due = false;
  planned.begun = true;
  planned.begun_ns = mono_now_ns();
  if (board_.fault_unix_ns.load() == 0) board_.fault_unix_ns = unix_now_ns();
}

void RankFaults::mark_recovered() { board_.recovered_unix_ns = unix_now_ns(); }

void RankFaults::before_init() {
  for (Planned& planned : planned_) {
    if (planned.fault.kind != Fault::Kind::kInitMissing) continue;
    mark_begun(planned);
    sleep_for(planned.fault);
  }
}

void RankFaults::begin_step(std::int64_t step) {
  const std::int64_t now = mono_now_ns();
  if (first_step_ns_ == 0) first_step_ns_ = now;
  const double elapsed_s = static_cast<double>(now - first_step_ns_) / 1e9;
  for (Planned& planned : planned_) {
    const bool reached = (planned.fault.at_step && step >= *planned.fault.at_step) ||
                         (planned.fault.at_s && elapsed_s >= *planned.fault.at_s);
    planned.due = reached && !planned.begun;
  }
}

bool RankFaults::begins(Fault::Kind kind) {
  for (Planned& planned : planned_) {
    if (planned.fault.kind != kind || !planned.due) continue;
    mark_begun(planned);
    return true;
  }
  return false;
}

void RankFaults::at_collective() {
  for (Planned& planned : planned_) {
    if (!planned.due) continue;
    switch (planned.fault.kind) {
      case Fault::Kind::kSleepBeforeCollective:
        mark_begun(planned);
        sleep_for(planned.fault);
        break;
      case Fault::Kind::kCheckpoint:
        mark_begun(planned);
        write_checkpoint(planned.fault);
        break;
      case Fault::Kind::kStop:
        mark_begun(planned);
        ::raise(SIGSTOP);
        mark_recovered();
        break;
      case Fault::Kind::kKill:
        mark_begun(planned);
        ::raise(SIGKILL);
        break;
      default:
        break;
    }
  }
}

void RankFaults::sleep_for(const Fault& fault) {
  sleep_until(mono_now_ns() + nanoseconds(fault));
  mark_recovered();
}

// One file of bounded size, written over and over at a rate that a shared disk bears.
void RankFaults::write_checkpoint(const Fault& fault) {
  constexpr std::size_t kFileBytes = 64 << 20;
  constexpr std::size_t kChunkBytes = 1 << 20;
  constexpr std::size_t kSyncEvery = 8 << 20;
  constexpr std::int64_t kChunkPeriodNs = 50'000'000;
  const std::string path = folder_ + "/checkpoint.bin";
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const std::vector<char> chunk(kChunkBytes, 's');
  const std::int64_t end_ns = mono_now_ns() + nanoseconds(fault);
  for (std::size_t offset = 0; mono_now_ns() < end_ns;
       offset = (offset + kChunkBytes) % kFileBytes) {
    if (::pwrite(file.get(), chunk.data(), chunk.size(), static_cast<off_t>(offset)) < 0) break;
    if (offset % kSyncEvery == 0) ::fsync(file.get());
    sleep_until(std::min(end_ns, mono_now_ns() + kChunkPeriodNs));
  }
  ::unlink(path.c_str());
  mark_recovered();
}

std::int64_t RankFaults::endless_ns() const {
  for (const Planned& planned : planned_) {
    if (planned.fault.kind == Fault::Kind::kKernelNeverEnds) return nanoseconds(planned.fault);
  }
  return 0;
}

double RankFaults::slowness() {
  begins(Fault::Kind::kSlow);
  for (const Planned& planned : planned_) {
    if (planned.fault.kind != Fault::Kind::kSlow || !planned.begun) continue;
    if (mono_now_ns() < planned.begun_ns + nanoseconds(planned.fault)) return planned.fault.factor;
    if (board_.recovered_unix_ns.load() == 0) mark_recovered();
  }
  return 1;
}

}  // namespace rung::sim
