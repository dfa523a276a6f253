#include "sources/cpu_place/thread_clock.h"

#include <asm/perf_regs.h>
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

namespace rung {
namespace {

// Enough for the frames of a system-call wrapper; most have none and the top word is the caller.
constexpr std::uint32_t kStackBytes = 192;
constexpr std::size_t kRecordBytes = 8 + 8 + 8 + 3 * 8 + 8 + kStackBytes + 8;
constexpr std::size_t kMostRingBytes = 256 << 10;

// Registers come in ascending order of their numbers.
#if defined(__x86_64__)
constexpr std::uint64_t kRegisters = 1ULL << PERF_REG_X86_SP | 1ULL << PERF_REG_X86_IP;
constexpr bool kLinkRegister = false;
#elif defined(__aarch64__)
constexpr std::uint64_t kRegisters =
    1ULL << PERF_REG_ARM64_LR | 1ULL << PERF_REG_ARM64_SP | 1ULL << PERF_REG_ARM64_PC;
constexpr bool kLinkRegister = true;
#else
#error "unknown architecture"
#endif

perf_event_attr attributes(std::uint64_t period_ns, bool with_kernel) {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_TASK_CLOCK;
  attr.sample_period = period_ns;
  attr.sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
  attr.sample_regs_user = kRegisters;
  attr.sample_stack_user = kStackBytes;
  attr.exclude_kernel = with_kernel ? 0 : 1;
  attr.exclude_hv = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  return attr;
}

int open_event(pid_t tid, std::uint64_t period_ns) {
  for (const bool with_kernel : {true, false}) {
    perf_event_attr attr = attributes(period_ns, with_kernel);
    const long fd = ::syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd >= 0 || (errno != EACCES && errno != EPERM)) return static_cast<int>(fd);
  }
  return -1;
}

// Reads a record's fields one after the other and stops at its end.
class Fields {
 public:
  explicit Fields(const std::vector<std::byte>& record) : record_(record) {}
  std::optional<std::uint64_t> next() {
    std::uint64_t value = 0;
    if (at_ + sizeof value > record_.size()) return std::nullopt;
    std::memcpy(&value, record_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

 private:
  const std::vector<std::byte>& record_;
  std::size_t at_ = sizeof(perf_event_header);
};

std::optional<ThreadClock::Sample> parse_sample(const std::vector<std::byte>& record) {
  Fields fields(record);
  const auto time = fields.next();
  const auto abi = fields.next();
  if (!time || !abi) return std::nullopt;
  ThreadClock::Sample sample;
  sample.mono_ns = static_cast<std::int64_t>(*time);
  if (*abi == PERF_SAMPLE_REGS_ABI_NONE) return sample;
  if (kLinkRegister) sample.callers.push_back(fields.next().value_or(0));
  fields.next();  // the stack pointer, needed for the dump only
  sample.instruction = fields.next().value_or(0);
  const auto dumped = fields.next().value_or(0);
  std::vector<std::uint64_t> words;
  for (std::uint64_t at = 0; at < dumped && at < kStackBytes; at += 8) {
    words.push_back(fields.next().value_or(0));
  }
  // What follows the dump says how much of it is real.
  const std::uint64_t real = dumped != 0 ? fields.next().value_or(0) / 8 : 0;
  if (real < words.size()) words.resize(real);
  sample.callers.insert(sample.callers.end(), words.begin(), words.end());
  return sample;
}

}  // namespace

ThreadClock::ThreadClock(Fd event, void* ring, std::size_t bytes)
    : event_(std::move(event)), ring_(ring), bytes_(bytes) {}

ThreadClock::ThreadClock(ThreadClock&& other) noexcept
    : event_(std::move(other.event_)),
      ring_(std::exchange(other.ring_, nullptr)),
      bytes_(other.bytes_) {}

ThreadClock::~ThreadClock() {
  if (ring_ != nullptr) ::munmap(ring_, bytes_);
}

Result<ThreadClock> ThreadClock::open(pid_t tid, std::uint64_t period_ns, std::size_t samples) {
  Fd event(open_event(tid, period_ns));
  if (!event.valid()) {
    return fail_errno(errno, fmt::format("cannot sample thread {}", tid),
                      "needs CAP_PERFMON, or perf_event_paranoid <= 2 and the same user");
  }
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t wanted = std::min(samples * kRecordBytes, kMostRingBytes);
  const std::size_t pages = std::bit_ceil((wanted + page - 1) / page);
  const std::size_t bytes = (pages + 1) * page;
  void* ring = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, event.get(), 0);
  if (ring == MAP_FAILED) {
    return fail_errno(errno, "cannot map a perf buffer", "raise perf_event_mlock_kb");
  }
  return ThreadClock(std::move(event), ring, bytes);
}

std::vector<ThreadClock::Sample> ThreadClock::finish() {
  ::ioctl(event_.get(), PERF_EVENT_IOC_DISABLE, 0);
  auto* page = static_cast<perf_event_mmap_page*>(ring_);
  const std::uint64_t head = std::atomic_ref(page->data_head).load(std::memory_order_acquire);
  std::uint64_t tail = page->data_tail;
  const auto* data = static_cast<const std::byte*>(ring_) + page->data_offset;
  const std::uint64_t size = page->data_size;
  std::vector<Sample> samples;
  while (tail + sizeof(perf_event_header) <= head) {
    const auto copy = [&](std::size_t bytes) {
      std::vector<std::byte> out(bytes);
      for (std::size_t i = 0; i < bytes; ++i) out[i] = data[(tail + i) % size];
      return out;
    };
    perf_event_header header;
    std::memcpy(&header, copy(sizeof header).data(), sizeof header);
    if (header.size < sizeof header || tail + header.size > head) break;
    if (header.type == PERF_RECORD_SAMPLE) {
      if (auto sample = parse_sample(copy(header.size))) samples.push_back(std::move(*sample));
    }
    tail += header.size;
  }
  std::atomic_ref(page->data_tail).store(tail, std::memory_order_release);
  return samples;
}

}  // namespace rung
