#include "store/rank_set_text.h"

#include "base/strings.h"
#include "model/limits.h"

namespace rung::store {

std::optional<RankSet> parse_rank_set(std::string_view text) {
  RankSet set;
  if (text.empty()) return set;
  std::int64_t next = 0;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t dash = part.find('-', 1);
    const auto first = parse_number<std::int32_t>(part.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : parse_number<std::int32_t>(part.substr(dash + 1));
    if (!first || !last || *first < next || *last < *first) return std::nullopt;
    if (*last >= static_cast<std::int64_t>(limits::kRanksPerJob)) return std::nullopt;
    for (std::int32_t rank = *first; rank <= *last; ++rank) set.insert(RankId{rank});
    next = std::int64_t{*last} + 1;
  }
  return set;
}

}  // namespace rung::store
