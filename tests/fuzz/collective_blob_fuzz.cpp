// Packed batches of collectives, from recordings of unknown origin.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "store/collective_blob.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // 2 bytes: claimed number of entries; 8 bytes: time of the first; the rest: the blob.
  constexpr std::size_t kHead = 10;
  if (size < kHead) return 0;
  std::uint16_t count = 0;
  std::int64_t first_ns = 0;
  std::memcpy(&count, data, 2);
  std::memcpy(&first_ns, data + 2, 8);
  const std::string_view blob(reinterpret_cast<const char*>(data) + kHead, size - kHead);
  const auto entries = rung::store::unpack_collectives(blob, count, first_ns);
  if (!entries) return 0;
  // What was accepted must survive another round.
  const auto again =
      rung::store::unpack_collectives(rung::store::pack_collectives(*entries), count, first_ns);
  if (!again || *again != *entries) std::abort();
  return 0;
}
