// The packed form of a batch of collectives: times and signature ids as varints, deflated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rung::store {

struct PackedEntry {
  std::int64_t entered_ns = 0;
  std::uint64_t signature = 0;  // id in the table `signature`
  friend bool operator==(const PackedEntry&, const PackedEntry&) = default;
};

// zlib stream of: for each entry the zigzag varint of its time minus the time of the entry before
// (of itself for the first, so 0), then for each entry the varint of its signature id. Two columns
// one after the other because ids repeat and times do not.
std::string pack_collectives(std::span<const PackedEntry> entries);

// The entries of a blob that claims to hold `count` of them, the first at `first_ns`. Never uses
// more than 40 bytes of memory per claimed entry. Errors: kBadInput.
Result<std::vector<PackedEntry>> unpack_collectives(std::string_view blob, std::size_t count,
                                                    std::int64_t first_ns);

}  // namespace rung::store
