#include "fakes/cuda/context.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "fakes/cuda/stream.h"

using namespace rung::sim;

namespace {

bool gone(std::int32_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

// A slot of the device's board for this process; a private one when the board is full.
DeviceProcess* claim_board(int device) {
  static auto* const overflow = new DeviceProcess{};
  Fabric* fabric = Fabric::instance();
  if (fabric == nullptr) return overflow;
  for (DeviceProcess& slot : fabric->header().devices[static_cast<std::size_t>(device)].processes) {
    std::int32_t owner = slot.pid.load();
    if (owner != 0 && owner != ::getpid() && !gone(owner)) continue;
    if (!slot.pid.compare_exchange_strong(owner, ::getpid())) continue;
    slot.used_bytes = 0;
    slot.kernels = 0;
    slot.any.since_ns = 0;
    slot.compute.since_ns = 0;
    return &slot;
  }
  return overflow;
}

std::vector<int> parse_visible_devices() {
  Fabric* fabric = Fabric::instance();
  const int count = fabric == nullptr ? 0 : static_cast<int>(kDevices);
  std::vector<int> devices;
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int i = 0; i < count; ++i) devices.push_back(i);
    return devices;
  }
  std::string_view rest = text;
  while (!rest.empty()) {
    int index = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
    // As the driver does: the list ends at the first entry that names no device.
    if (error != std::errc{} || index < 0 || index >= count) break;
    devices.push_back(index);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (!rest.empty()) rest.remove_prefix(1);
  }
  return devices;
}

}  // namespace

SimContext::SimContext(int physical_device)
    : device(physical_device),
      board_(claim_board(physical_device)),
      any_{0, &board_->any},
      compute_{0, &board_->compute} {
  default_stream = SimStream::make(this);
}

void SimContext::Resident::begin() {
  if (depth++ == 0) span->since_ns = monotonic_ns();
}

void SimContext::Resident::end() {
  if (--depth > 0) return;
  span->total_ns += monotonic_ns() - span->since_ns;
  span->since_ns = 0;
}

void SimContext::kernel_begins(bool compute) {
  const std::lock_guard lock(mutex_);
  any_.begin();
  if (compute) compute_.begin();
}

void SimContext::kernel_ends(bool compute) {
  const std::lock_guard lock(mutex_);
  any_.end();
  if (compute) compute_.end();
}

CUdeviceptr SimContext::allocate(std::size_t bytes) {
  if (bytes == 0 || bytes > kDeviceBytes - used_bytes()) return 0;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 0;
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  const std::lock_guard lock(mutex_);
  allocations_[address] = bytes;
  board_->used_bytes += bytes;
  return address;
}

bool SimContext::release(CUdeviceptr address) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  ::munmap(reinterpret_cast<void*>(address), found->second);
  board_->used_bytes -= found->second;
  allocations_.erase(found);
  return true;
}

namespace rung::sim {

const std::vector<int>& visible_devices() {
  static const auto* const devices = new std::vector<int>(parse_visible_devices());
  return *devices;
}

SimContext* primary_context(CUdevice ordinal) {
  static auto* const mutex = new std::mutex;
  static auto* const contexts = new std::map<CUdevice, std::unique_ptr<SimContext>>;
  const auto& visible = visible_devices();
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= visible.size()) return nullptr;
  const std::lock_guard lock(*mutex);
  auto& context = (*contexts)[ordinal];
  if (context == nullptr) {
    context = std::make_unique<SimContext>(visible[static_cast<std::size_t>(ordinal)]);
  }
  return context.get();
}

SimContext*& current_context() {
  thread_local SimContext* current = nullptr;
  return current;
}

SimContext* context_or_default() {
  SimContext*& current = current_context();
  if (current == nullptr) current = primary_context(0);
  return current;
}

}  // namespace rung::sim
