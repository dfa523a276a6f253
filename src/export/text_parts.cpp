#include "export/text_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/strings.h"
#include "export/limits.h"

namespace rung::view {

Colour colour_of(const Verdict& verdict) {
  if (verdict.severity == Severity::kError) return Colour::kRed;
  if (verdict.severity == Severity::kWarning) return Colour::kYellow;
  return family_of(verdict.kind) == "healthy" ? Colour::kGreen : Colour::kBold;
}

std::string banner(const Verdict& verdict, const TextOptions& options) {
  std::string family(family_of(verdict.kind));
  std::transform(family.begin(), family.end(), family.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string line = "=== " + printable(family, 40);
  if (!verdict.ranks.empty()) line += "  " + ranks_phrase(verdict.ranks);
  line += ' ';
  const std::string tail = fmt::format(" {} ===", name_of(verdict.confidence));
  const std::size_t used = line.size() + tail.size();
  const auto width = static_cast<std::size_t>(columns_of(options));
  line += std::string(width > used ? width - used : 3, '=') + tail;
  return painted(line, colour_of(verdict), options) + "\n";
}

std::string job_phrase(const JobView& job) {
  std::string out = printable(job.job.text);
  if (!job.label.empty()) out += fmt::format(" \"{}\"", printable(job.label));
  if (job.attempt > 0) out += fmt::format(", attempt {}", job.attempt);
  return out;
}

std::string seen_phrase(const JobView& job) {
  const std::size_t seen = job.observed().count();
  return job.world_size.match(
      [&](std::int32_t size) {
        const RankSet missing = job.unobserved();
        return fmt::format("{} of {} ranks seen{}", seen, size,
                           missing.empty() ? "" : ", not " + ranks_phrase(missing));
      },
      [&](Unknown) { return fmt::format("{} ranks seen, world size not known", seen); });
}

std::string simulated_line(const JobView& job, const TextOptions& options) {
  if (!job.simulated) return "";
  return painted("*** SIMULATED: no GPU was involved, the node is a simulator ***", Colour::kYellow,
                 options) +
         "\n";
}

std::string titled_list(std::string_view title, const std::vector<std::string>& texts, int width) {
  if (texts.empty()) return "";
  std::string out = fmt::format("  {}\n", title);
  const std::size_t shown = std::min(texts.size(), limits::kListLines);
  for (std::size_t i = 0; i < shown; ++i) out += wrapped("    - ", texts[i], width);
  if (shown < texts.size()) out += fmt::format("    and {} more\n", texts.size() - shown);
  return out;
}

}  // namespace rung::view
