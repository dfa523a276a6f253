#include "fakes/nvml/device.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "fabric/fabric.h"
#include "fakes/nvml/control.h"

namespace rung::sim {
namespace {

bool alive(std::int32_t pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; }

std::int64_t total(const BusySpan& span, bool running, std::int64_t now_ns) {
  const std::int64_t since = span.since_ns.load();
  return span.total_ns.load() +
         (running && since != 0 ? std::max<std::int64_t>(now_ns - since, 0) : 0);
}

NvmlControl read_control() {
  const char* folder = std::getenv("RUNG_SIM_DIR");
  if (folder == nullptr) return {};
  const int fd = ::open((std::string(folder) + "/nvml.control").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::array<char, 4096> text;
  const ssize_t got = ::read(fd, text.data(), text.size());
  ::close(fd);
  return parse_nvml_control({text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))});
}

// The fabric of the run folder. It may be made after NVML was loaded, and again by the next run.
class Node {
 public:
  // nullptr while there is no run.
  Fabric* fabric() {
    const char* folder = std::getenv("RUNG_SIM_DIR");
    struct stat file {};
    if (folder == nullptr || ::stat((std::string(folder) + "/fabric").c_str(), &file) != 0) {
      return nullptr;
    }
    if (fabric_ == nullptr || file.st_ino != inode_) {
      fabric_.reset(Fabric::open(folder, false));
      inode_ = file.st_ino;
    }
    return fabric_.get();
  }

  std::mutex mutex;

 private:
  std::unique_ptr<Fabric> fabric_;
  ino_t inode_ = 0;
};

Node& node() {
  static auto* const instance = new Node;
  return *instance;
}

}  // namespace

Snapshot snapshot(int device) {
  Snapshot now;
  now.at_ns = monotonic_ns();
  const std::lock_guard lock(node().mutex);
  Fabric* fabric = node().fabric();
  if (fabric == nullptr) return now;
  for (DeviceProcess& slot : fabric->header().devices[static_cast<std::size_t>(device)].processes) {
    const std::int32_t pid = slot.pid.load();
    if (pid == 0) continue;
    const bool running = alive(pid);
    now.any_ns += total(slot.any, running, now.at_ns);
    now.compute_ns += total(slot.compute, running, now.at_ns);
    now.nvlink_bytes += slot.nvlink_bytes.load();
    if (!running) continue;
    // A context alone takes about half a gigabyte on an H200.
    constexpr std::uint64_t kContextBytes = 520 << 20;
    const std::uint64_t bytes = kContextBytes + slot.used_bytes.load();
    now.used_bytes += bytes;
    now.processes.push_back({static_cast<unsigned>(pid), bytes});
  }
  return now;
}

Load load_between(const Snapshot& before, const Snapshot& after) {
  const auto wall = static_cast<double>(after.at_ns - before.at_ns);
  if (wall <= 0) return {};
  const auto share = [&](std::int64_t from, std::int64_t to) {
    return std::clamp(static_cast<double>(to - from) / wall, 0.0, 1.0);
  };
  return {share(before.any_ns, after.any_ns), share(before.compute_ns, after.compute_ns)};
}

Load recent_load(int device) {
  struct Last {
    Snapshot before;
    Load load;
  };
  static auto* const mutex = new std::mutex;
  static auto* const last = new std::array<Last, kDevices>;
  constexpr std::int64_t kWindowNs = 100'000'000;
  const std::lock_guard lock(*mutex);
  Last& mine = (*last)[static_cast<std::size_t>(device)];
  const bool first = mine.before.at_ns == 0;
  if (first) mine.before = snapshot(device);
  if (first) sleep_until(mine.before.at_ns + kWindowNs);
  const Snapshot now = snapshot(device);
  if (now.at_ns - mine.before.at_ns >= kWindowNs) {
    mine.load = load_between(mine.before, now);
    mine.before = now;
  }
  return mine.load;
}

std::optional<int> gate(std::string_view function, std::optional<int> device) {
  const std::int64_t begin_ns = monotonic_ns();
  constexpr std::int64_t kLookAgainNs = 50'000'000;
  for (;;) {
    const NvmlControl control = read_control();
    const auto block_ms = value_of(control.blocks, function, device);
    const std::int64_t waited_ms = (monotonic_ns() - begin_ns) / 1000000;
    if (!block_ms || waited_ms >= *block_ms) {
      const auto error = value_of(control.errors, function, device);
      return error ? std::optional(static_cast<int>(*error)) : std::nullopt;
    }
    sleep_until(monotonic_ns() + kLookAgainNs);
  }
}

unsigned setting(std::string_view quantity, int device, double otherwise) {
  const auto set = value_of(read_control().settings, quantity, device);
  return set ? static_cast<unsigned>(*set) : static_cast<unsigned>(otherwise);
}

}  // namespace rung::sim
