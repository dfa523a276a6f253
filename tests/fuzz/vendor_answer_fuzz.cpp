// An answer of a vendor worker, whose memory the vendor library may have damaged.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "sources/nvml/process_list.h"
#include "sources/nvml/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static_cast<void>(rung::vendor::checked_answer(data, size));
  // Random bytes hardly ever have the size of an answer: lay them over a good one.
  const auto answer = std::make_unique<rung::vendor::Answer>();
  std::memcpy(answer.get(), data, size < sizeof *answer ? size : sizeof *answer);
  answer->version = rung::vendor::kVersion;
  if (const auto checked = rung::vendor::checked_answer(answer.get(), sizeof *answer)) {
    static_cast<void>(rung::vendor::from_wire(checked->sample, true));
  }
  std::vector<std::byte> list(size);
  if (size > 0) std::memcpy(list.data(), data, size);
  if (rung::nvml::pids_of_list(list, 1000, 1 << 20).size() > size) __builtin_trap();
  return 0;
}
