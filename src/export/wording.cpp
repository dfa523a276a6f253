#include "export/wording.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/strings.h"

namespace rung::view {
namespace {

constexpr int kFewestColumns = 40;
constexpr std::size_t kTextBytes = 4096;    // of one sentence; longer ones are cut
constexpr std::size_t kPhraseColumns = 60;  // of a rank set in a sentence
constexpr std::int64_t kDayNs = 86'400'000'000'000;

std::size_t code_point_end(std::string_view text, std::size_t at) {
  ++at;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

}  // namespace

std::string span_text(std::chrono::nanoseconds span) {
  const double seconds = static_cast<double>(std::max<std::int64_t>(ns_of(span), 0)) / 1e9;
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

std::string clock_text(JobNs at, std::optional<JobNs> now) {
  const std::string text = rfc3339(ns_of(at));  // 2026-11-29T13:23:05.123Z
  const std::size_t t = text.find('T');
  const std::size_t dot = text.find('.');
  if (t == std::string::npos || dot == std::string::npos) return text;
  const std::string time = text.substr(t + 1, dot - t - 1) + " UTC";
  const bool same_day = now && ns_of(at) / kDayNs == ns_of(*now) / kDayNs;
  return same_day ? time : text.substr(0, t) + " " + time;
}

std::string when_text(JobNs at, std::optional<JobNs> now) {
  const std::string clock = clock_text(at, now);
  return now && *now >= at ? span_text(*now - at) + " ago, " + clock : clock;
}

std::string ranks_phrase(const RankSet& ranks) {
  const std::size_t count = ranks.count();
  if (count == 0) return "no rank";
  if (count == 1) return "rank " + ranks.text();
  return fmt::format("{} ranks: {}", count, ranks_cell(ranks, kPhraseColumns));
}

std::string ranks_cell(const RankSet& ranks, std::size_t width) {
  std::string text = ranks.text();
  if (text.size() <= width) return text;
  const std::string tail = fmt::format(",.. ({})", ranks.count());
  const std::size_t room = width > tail.size() ? width - tail.size() : 0;
  const std::size_t comma = text.rfind(',', room);
  if (comma == std::string::npos) return fmt::format("({} ranks)", ranks.count());
  return text.substr(0, comma) + tail;
}

std::string wrapped(std::string_view first, std::string_view text, int width) {
  const std::string clean = printable(text, kTextBytes);
  const std::size_t indent = columns_in(first);
  const std::size_t room =
      std::max<std::size_t>(static_cast<std::size_t>(width), indent + 20) - indent;
  std::string out(first);
  std::size_t used = 0;
  for (const std::string_view word : split(clean, ' ')) {
    const std::size_t columns = columns_in(word);
    if (used > 0 && used + 1 + columns > room) {
      out += "\n" + std::string(indent, ' ');
      used = 0;
    }
    if (used > 0) {
      out += ' ';
      ++used;
    }
    out += word;
    used += columns;
  }
  return out + "\n";
}

std::string painted(std::string_view text, Colour colour, const TextOptions& options) {
  if (!options.colour || colour == Colour::kNone) return std::string(text);
  const char* code = "";
  switch (colour) {
    case Colour::kRed:
      code = "1;31";
      break;
    case Colour::kYellow:
      code = "1;33";
      break;
    case Colour::kGreen:
      code = "32";
      break;
    case Colour::kDim:
      code = "2";
      break;
    default:
      code = "1";
  }
  const bool line = text.ends_with('\n');
  if (line) text.remove_suffix(1);
  return fmt::format("\x1b[{}m{}\x1b[0m{}", code, text, line ? "\n" : "");
}

int columns_of(const TextOptions& options) { return std::max(options.width, kFewestColumns); }

std::size_t columns_in(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size(); at = code_point_end(text, at)) ++columns;
  return columns;
}

std::string padded(std::string_view text, std::size_t width) {
  const std::size_t columns = columns_in(text);
  return std::string(text) + std::string(width > columns ? width - columns : 0, ' ');
}

}  // namespace rung::view
