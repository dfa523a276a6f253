// The text of a rank set, "0-36,38-99", read back.
#pragma once

#include <optional>
#include <string_view>

#include "model/rank_set.h"

namespace rung::store {

// Nothing unless the text is what RankSet::text() writes: ascending, without overlap, each rank
// below limits::kRanksPerJob.
std::optional<RankSet> parse_rank_set(std::string_view text);

}  // namespace rung::store
