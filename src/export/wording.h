// Words and layout that the text views share.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "export/text_options.h"
#include "model/rank_set.h"
#include "model/time.h"

namespace rung::view {

// "0.4 s", "12 s", "3 min 5 s", "2 h 7 min", "4 d 3 h": two units at most.
std::string span_text(std::chrono::nanoseconds span);

// "14:03:22 UTC"; with the date when it is not the day of `now`.
std::string clock_text(JobNs at, std::optional<JobNs> now);

// "12 s ago, 14:03:22 UTC"; without "ago" when `now` is not known.
std::string when_text(JobNs at, std::optional<JobNs> now);

// "rank 3", "7 ranks: 0-2,4-7", "no rank"; long sets are cut, their count never is.
std::string ranks_phrase(const RankSet& ranks);

// The set in at most `width` columns: "0-36,38-99", or "0-2,4,.. (132)" when it is longer.
std::string ranks_cell(const RankSet& ranks, std::size_t width);

// `text` in lines of at most `width` columns, the first behind `first`, the rest behind blanks of
// the same width. Foreign bytes are made printable. Ends with a newline.
std::string wrapped(std::string_view first, std::string_view text, int width);

enum class Colour { kNone, kRed, kYellow, kGreen, kDim, kBold };

// `text` in that colour when the options want colours.
std::string painted(std::string_view text, Colour colour, const TextOptions& options);

// Columns to use: the terminal's, 40 at least.
int columns_of(const TextOptions& options);

// Visible columns of UTF-8 text, one for each code point.
std::size_t columns_in(std::string_view text);
// `text` followed by blanks up to `width` columns.
std::string padded(std::string_view text, std::size_t width);

}  // namespace rung::view
