// The loaded eBPF programs and typed access to their maps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "bpf/host_probes.h"

struct ring_buffer;
struct host_probes;

namespace rung {

class ProbePrograms {
 public:
  struct Options {
    std::size_t ring_bytes = 4u << 20;
    bool multi = true;  // for multi-uprobe links, else for perf events
  };
  // Errors: kNoPermission, kUnavailable with libbpf's last words.
  static Result<std::unique_ptr<ProbePrograms>> load(const Options& options);
  ~ProbePrograms();
  ProbePrograms(const ProbePrograms&) = delete;
  ProbePrograms& operator=(const ProbePrograms&) = delete;

  int cuda_program() const;
  int nccl_program() const;
  // Begins to report exits of watched processes and exec hints.
  Result<void> attach_process_events();

  Result<void> set_process(std::uint32_t pid, const rung_process& process);
  void erase_process(std::uint32_t pid);

  // Summed over CPUs; zeros when the slot cannot be read.
  rung_counters counters(std::uint32_t slot) const;
  void clear_counters(std::uint32_t slot);
  std::array<std::uint64_t, RUNG_DROPS> drops() const;

  std::vector<std::pair<std::uint32_t, rung_thread>> threads() const;
  void erase_thread(std::uint32_t tid);
  std::vector<std::pair<rung_peer_key, rung_peer_counts>> peers() const;
  void erase_peer(const rung_peer_key& key);

  using EventHandler = std::function<void(const rung_event& head, std::span<const std::byte> all)>;
  // Hands every event in the ring to `handler`, in order.
  void consume(const EventHandler& handler);
  int event_fd() const;

  // Exec hints of unwatched processes until the next call are bounded by `limit`; processes born
  // after `boot_ns` (CLOCK_BOOTTIME) that end unwatched are counted as short-lived.
  void begin_tick(std::int64_t boot_ns, std::uint64_t limit);
  std::uint64_t short_lived() const;

 private:
  ProbePrograms() = default;
  static int on_event(void* context, void* data, std::size_t bytes);

  host_probes* skeleton_ = nullptr;
  ring_buffer* ring_ = nullptr;
  const EventHandler* handler_ = nullptr;
  std::size_t cpus_ = 1;
};

}  // namespace rung
