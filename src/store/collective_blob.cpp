#include "store/collective_blob.h"

#include <zlib.h>

#include <optional>

namespace rung::store {
namespace {

constexpr std::size_t kVarintBytes = 10;  // longest varint of 64 bits

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

std::optional<std::uint64_t> take_varint(std::string_view& in) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kVarintBytes && i < in.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(in[i]);
    if (i + 1 == kVarintBytes && byte > 1) return std::nullopt;  // more than 64 bits
    value |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      in.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

std::uint64_t zigzag(std::uint64_t delta) { return (delta << 1) ^ (0 - (delta >> 63)); }
std::uint64_t unzigzag(std::uint64_t coded) { return (coded >> 1) ^ (0 - (coded & 1)); }

tl::unexpected<Error> malformed(const char* what) {
  return fail(ErrorCode::kBadInput, std::string("malformed batch of collectives: ") + what);
}

Result<std::string> inflate_exactly(std::string_view blob, std::size_t most) {
  std::string raw(most, '\0');
  uLongf size = most;
  uLong used = blob.size();
  const int rc = uncompress2(reinterpret_cast<Bytef*>(raw.data()), &size,
                             reinterpret_cast<const Bytef*>(blob.data()), &used);
  if (rc != Z_OK || used != blob.size()) return malformed("it does not inflate");
  raw.resize(size);
  return raw;
}

}  // namespace

std::string pack_collectives(std::span<const PackedEntry> entries) {
  std::string raw;
  // Differences of unsigned numbers wrap, so every pair of times survives.
  std::uint64_t before = entries.empty() ? 0 : static_cast<std::uint64_t>(entries[0].entered_ns);
  for (const PackedEntry& entry : entries) {
    const auto now = static_cast<std::uint64_t>(entry.entered_ns);
    put_varint(raw, zigzag(now - before));
    before = now;
  }
  for (const PackedEntry& entry : entries) put_varint(raw, entry.signature);

  uLongf size = compressBound(raw.size());
  std::string blob(size, '\0');
  // Cannot fail: the output has room for the worst case and level 6 is valid.
  compress2(reinterpret_cast<Bytef*>(blob.data()), &size,
            reinterpret_cast<const Bytef*>(raw.data()), raw.size(), 6);
  blob.resize(size);
  return blob;
}

Result<std::vector<PackedEntry>> unpack_collectives(std::string_view blob, std::size_t count,
                                                    std::int64_t first_ns) {
  // One byte more, because uncompress2 wants somewhere to write even when nothing is expected.
  const auto raw = inflate_exactly(blob, count * 2 * kVarintBytes + 1);
  if (!raw) return tl::unexpected<Error>(raw.error());
  std::string_view rest = *raw;
  if (rest.size() < 2 * count) return malformed("it is too short");

  std::vector<PackedEntry> entries(count);
  auto now = static_cast<std::uint64_t>(first_ns);
  for (PackedEntry& entry : entries) {
    const auto coded = take_varint(rest);
    if (!coded) return malformed("a time is cut");
    now += unzigzag(*coded);
    entry.entered_ns = static_cast<std::int64_t>(now);
  }
  for (PackedEntry& entry : entries) {
    const auto id = take_varint(rest);
    if (!id) return malformed("a signature is cut");
    entry.signature = *id;
  }
  if (!rest.empty()) return malformed("it has bytes after its end");
  if (count > 0 && entries[0].entered_ns != first_ns) return malformed("its first time differs");
  return entries;
}

}  // namespace rung::store
