#include "cli/moment.h"

#include <time.h>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/strings.h"

namespace rung::cli {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::optional<double> as_number(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc{} || stop != end || !std::isfinite(number))
    return std::nullopt;
  return number;
}

std::optional<std::int64_t> relative(std::string_view text, std::int64_t now_ns) {
  if (text.size() < 3 || text.front() != '-') return std::nullopt;
  const char unit = text.back();
  const double scale = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
  const auto amount = as_number(text.substr(1, text.size() - 2));
  if (scale == 0 || !amount || *amount < 0 || *amount * scale > 1e9) return std::nullopt;
  return now_ns - static_cast<std::int64_t>(*amount * scale * 1e9);
}

std::optional<std::int64_t> absolute(const std::string& text) {
  tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  double fraction = 0;
  if (*rest == '.') {
    const std::size_t digits = std::string_view(rest + 1).find_first_not_of("0123456789");
    const auto read = as_number("0." + std::string(rest + 1).substr(0, digits));
    if (!read || digits == std::string::npos) return std::nullopt;
    fraction = *read;
    rest += 1 + digits;
  }
  if (std::string_view(rest) != "Z") return std::nullopt;
  return static_cast<std::int64_t>(::timegm(&parts)) * kSecond +
         static_cast<std::int64_t>(fraction * 1e9);
}

}  // namespace

Result<std::int64_t> parse_moment(const std::string& text, std::int64_t now_ns) {
  if (const auto found = relative(text, now_ns)) return *found;
  if (const auto seconds = as_number(text); seconds && *seconds >= 0 && *seconds < 9e9) {
    return static_cast<std::int64_t>(*seconds * 1e9);
  }
  if (const auto found = absolute(text)) return *found;
  return fail(ErrorCode::kUsage, "'" + printable(text) + "' is no point in time",
              "for example 2026-11-29T13:23:05Z, 1795958585 or -90s");
}

}  // namespace rung::cli
