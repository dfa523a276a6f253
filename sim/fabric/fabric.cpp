#include "fabric/fabric.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

namespace rung::sim {
namespace {

// Sparse: only touched pages exist. World communicators of 256 ranks take about 1 MiB each.
constexpr std::size_t kFabricBytes = std::size_t{256} << 20;
constexpr std::size_t kArenaStart = (sizeof(FabricHeader) + 4095) / 4096 * 4096;

void* map_shared(const std::string& folder, bool create) {
  const std::string path = folder + "/fabric";
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
  if (fd < 0) return MAP_FAILED;
  void* base = MAP_FAILED;
  if (::ftruncate(fd, static_cast<off_t>(kFabricBytes)) == 0) {
    base = ::mmap(nullptr, kFabricBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  }
  const int saved = errno;
  ::close(fd);
  errno = saved;
  return base;
}

}  // namespace

Fabric* Fabric::open(const std::string& folder, bool create) {
  void* base = folder.empty() ? ::mmap(nullptr, kFabricBytes, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                              : map_shared(folder, create);
  if (base == MAP_FAILED) return nullptr;
  return new Fabric(static_cast<std::byte*>(base));
}

Fabric* Fabric::instance() {
  static Fabric* const fabric = [] {
    const char* folder = std::getenv("RUNG_SIM_DIR");
    return open(folder == nullptr ? "" : folder, true);
  }();
  return fabric;
}

Fabric::~Fabric() { ::munmap(base_, kFabricBytes); }

std::byte* Fabric::comm_area(std::uint64_t key, std::size_t bytes) {
  FabricHeader& head = header();
  for (std::size_t probe = 0; probe < kMaxComms; ++probe) {
    CommEntry& entry = head.comms[(key + probe) % kMaxComms];
    std::uint64_t owner = 0;
    if (!entry.key.compare_exchange_strong(owner, key) && owner != key) continue;
    std::uint64_t offset = entry.offset.load();
    if (offset == 0) {
      const std::uint64_t rounded = (bytes + 4095) / 4096 * 4096;
      const std::uint64_t mine = kArenaStart + head.arena_used.fetch_add(rounded);
      if (mine + rounded > kFabricBytes) return nullptr;
      // Of two processes that place the area at once one loses, and its pages stay untouched.
      if (entry.offset.compare_exchange_strong(offset, mine)) offset = mine;
    }
    return base_ + offset;
  }
  return nullptr;
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, int timeout_ms) {
  timespec timeout{timeout_ms / 1000, (timeout_ms % 1000) * 1000000L};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, timeout_ms < 0 ? nullptr : &timeout, nullptr,
            0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

void sleep_until(std::int64_t deadline_ns) {
  const timespec deadline{deadline_ns / 1000000000, deadline_ns % 1000000000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

}  // namespace rung::sim
