// Small string helpers that several rooms need.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rung {

// The parts between separators; "a,,b" has an empty part, "" has one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trimmed(std::string_view text);

// The whole of `text` as a number in base 10 or 16, or nothing.
template <std::integral I>
std::optional<I> parse_number(std::string_view text, int base = 10) {
  I number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  if (error != std::errc{} || stop != end || text.empty()) return std::nullopt;
  return number;
}

// `text` as a JSON string with its quotes; invalid UTF-8 becomes U+FFFD.
std::string json_quoted(std::string_view text);

// `bytes` as lower-case hex digits.
std::string hex(std::string_view bytes);

// Foreign text made fit for a terminal: control and non-UTF-8 bytes become '?', cut at max_bytes.
std::string printable(std::string_view text, std::size_t max_bytes = 256);

}  // namespace rung
