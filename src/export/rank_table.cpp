#include "export/rank_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "base/strings.h"
#include "export/limits.h"
#include "export/summary.h"
#include "export/wording.h"

namespace rung::view {
namespace {

constexpr std::size_t kFunctionBytes = 28;
constexpr std::size_t kRanksColumns = 22;
constexpr const char* kNotKnown = "?";
// One letter a rung, in the order of the enumeration.
constexpr std::string_view kRungLetters = "FHSRNDCT";

char mark_of(Stage stage) {
  switch (stage) {
    case Stage::kFlowing:
      return '+';
    case Stage::kRequested:
    case Stage::kLoaded:
    case Stage::kAttached:
      return '~';
    case Stage::kYielded:
      return 'y';
    case Stage::kDormant:
      return 'z';
    case Stage::kStale:
      return 's';
    case Stage::kRefused:
      return '!';
    default:
      return '-';
  }
}

bool is_shown(Stage stage) {
  return stage != Stage::kNotApplicable && stage != Stage::kNotRequested;
}

std::string coverage_letters(const RankView& rank) {
  std::string out;
  for (const RungCoverage& coverage : rank.coverage) {
    const auto index = static_cast<std::size_t>(coverage.rung);
    if (!is_shown(coverage.stage) || index >= kRungLetters.size()) continue;
    if (!out.empty()) out += ' ';
    out += kRungLetters[index];
    out += mark_of(coverage.stage);
    if (coverage.lost > 0) out += '*';
  }
  return out.empty() ? kNotKnown : out;
}

// The smallest and the largest of what was known in a row.
template <class T>
class Range {
 public:
  void add(std::optional<T> value) {
    if (!value) {
      unknown_ = true;
      return;
    }
    low_ = low_ ? std::min(*low_, *value) : *value;
    high_ = high_ ? std::max(*high_, *value) : *value;
  }
  // "12", "12-14", "?", and "12-14 ?" when some were not known.
  template <class F>
  std::string text(F&& print, const char* between = "-") const {
    if (!low_) return kNotKnown;
    const std::string low = print(*low_);
    const std::string high = print(*high_);
    return (low == high ? low : low + between + high) + (unknown_ ? " ?" : "");
  }

 private:
  std::optional<T> low_;
  std::optional<T> high_;
  bool unknown_ = false;
};

// What one rank shows in the table.
struct RankFacts {
  RankId rank;
  bool accused = false;
  std::string state;
  std::string call;
  std::optional<std::chrono::nanoseconds> call_age;
  std::optional<std::uint64_t> entered;
  std::optional<double> utilization;
  std::optional<double> sm_active;
  std::string coverage;
};

RankFacts facts_of(const JobView& job, const RankView& rank, const RankSet& accused) {
  RankFacts facts;
  facts.rank = rank.rank;
  facts.accused = accused.contains(rank.rank);
  facts.state = state_of(rank).value_or(kNotKnown);
  facts.call = kNotKnown;
  // The call of a process that is gone says nothing about now.
  if (!rank.threads.empty() && !rank.exit) {
    const ThreadCall& call = rank.threads.front();
    facts.call =
        printable(call.function.empty() ? name_of(call.call) : call.function, kFunctionBytes);
    facts.call_age = job.now - call.entered;
  }
  if (const auto progress = progress_of(job, rank.rank)) facts.entered = progress->entered;
  if (rank.device && !rank.exit) {
    facts.utilization = rank.device->utilization_percent;
    facts.sm_active = rank.device->sm_active_percent;
  }
  facts.coverage = coverage_letters(rank);
  return facts;
}

struct Row {
  bool accused = false;
  RankSet ranks;
  std::string state;
  std::string call;
  std::string coverage;
  Range<std::int64_t> age_ns;
  Range<std::uint64_t> entered;
  Range<double> utilization;
  Range<double> sm_active;
};

// Ages that a reader would call different.
int age_class(std::optional<std::chrono::nanoseconds> age) {
  constexpr std::int64_t kBoundsSeconds[] = {1, 5, 30, 120, 600};
  if (!age) return -1;
  int index = 0;
  for (const std::int64_t bound : kBoundsSeconds) {
    if (*age < std::chrono::seconds(bound)) break;
    ++index;
  }
  return index;
}

enum class Detail { kExact, kRanges, kStatesOnly };

using RowKey = std::tuple<bool, std::string, std::string, std::string, int, std::int64_t>;

RowKey key_of(const RankFacts& facts, Detail detail) {
  RowKey key{!facts.accused, facts.state, facts.coverage, "", 0, 0};
  if (detail == Detail::kStatesOnly) return key;
  std::get<3>(key) = facts.call;
  std::get<4>(key) = age_class(facts.call_age);
  if (detail == Detail::kRanges) return key;
  std::get<5>(key) = facts.entered ? static_cast<std::int64_t>(*facts.entered) : -1;
  return key;
}

std::vector<Row> rows_at(const std::vector<RankFacts>& all, Detail detail) {
  std::map<RowKey, Row> rows;
  for (const RankFacts& facts : all) {
    const auto [at, is_new] = rows.try_emplace(key_of(facts, detail));
    Row& row = at->second;
    if (is_new) {
      row.accused = facts.accused;
      row.state = facts.state;
      row.call = facts.call;
      row.coverage = facts.coverage;
    } else if (row.call != facts.call) {
      row.call = "several";
    }
    row.ranks.insert(facts.rank);
    row.age_ns.add(facts.call_age ? std::optional(ns_of(*facts.call_age)) : std::nullopt);
    row.entered.add(facts.entered);
    row.utilization.add(facts.utilization);
    row.sm_active.add(facts.sm_active);
  }
  std::vector<Row> out;
  for (auto& [key, row] : rows) out.push_back(std::move(row));
  std::stable_sort(out.begin(), out.end(), [](const Row& a, const Row& b) {
    if (a.accused != b.accused) return a.accused;
    return a.ranks.ranks().front() < b.ranks.ranks().front();
  });
  return out;
}

std::vector<Row> rows_of(const JobView& job, const RankSet& accused) {
  std::vector<RankFacts> all;
  for (const RankView& rank : job.ranks) all.push_back(facts_of(job, rank, accused));
  for (const Detail detail : {Detail::kExact, Detail::kRanges}) {
    std::vector<Row> rows = rows_at(all, detail);
    if (rows.size() <= limits::kTableRows) return rows;
  }
  return rows_at(all, Detail::kStatesOnly);
}

using Cells = std::array<std::string, 8>;

Cells cells_of(const Row& row) {
  const auto percent = [](double value) { return fmt::format("{:.0f}%", value); };
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  const auto age = [](std::int64_t ns) { return span_text(std::chrono::nanoseconds(ns)); };
  return {(row.accused ? "> " : "  ") + ranks_cell(row.ranks, kRanksColumns),
          row.state,
          row.call,
          row.age_ns.text(age, " to "),
          row.entered.text(number),
          row.utilization.text(percent),
          row.sm_active.text(percent),
          row.coverage};
}

std::string line_of(const Cells& cells, const std::array<std::size_t, 8>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += i + 1 < cells.size() ? padded(cells[i], widths[i]) + "  " : cells[i];
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string legend_of(const JobView& job, int width) {
  std::array<bool, kRungLetters.size()> rungs{};
  std::map<char, const char*> marks;
  bool lost = false;
  for (const RankView& rank : job.ranks) {
    for (const RungCoverage& coverage : rank.coverage) {
      const auto index = static_cast<std::size_t>(coverage.rung);
      if (!is_shown(coverage.stage) || index >= rungs.size()) continue;
      rungs[index] = true;
      lost = lost || coverage.lost > 0;
      const char mark = mark_of(coverage.stage);
      marks[mark] = mark == '~' ? "not yet flowing" : name_of(coverage.stage);
    }
  }
  std::string text;
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    if (rungs[i]) text += fmt::format("{} {}, ", kRungLetters[i], name_of(static_cast<Rung>(i)));
  }
  for (const auto& [mark, meaning] : marks) text += fmt::format("{} {}, ", mark, meaning);
  if (lost) text += "* records lost, ";
  text += "? not known; GPU: a kernel was resident, SM: work on the multiprocessors";
  return wrapped("  seen by: ", text, width);
}

}  // namespace

std::string rank_table(const JobView& job, const RankSet& accused, const TextOptions& options) {
  std::vector<Row> rows = rows_of(job, accused);
  if (rows.empty()) return "  no rank was seen\n";
  RankSet left_out;
  while (rows.size() > limits::kTableRows) {
    left_out |= rows.back().ranks;
    rows.pop_back();
  }
  std::vector<Cells> lines = {
      {"  ranks", "state", "last call", "entered ago", "collectives", "GPU", "SM", "seen by"}};
  for (const Row& row : rows) lines.push_back(cells_of(row));
  std::array<std::size_t, 8> widths{};
  for (const Cells& cells : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], columns_in(cells[i]));
    }
  }
  std::string out = painted(line_of(lines[0], widths), Colour::kDim, options) + "\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Colour colour = rows[i].accused ? Colour::kRed : Colour::kNone;
    out += painted(line_of(lines[i + 1], widths), colour, options) + "\n";
  }
  const int width = columns_of(options);
  if (!left_out.empty()) {
    out += wrapped("  other: ", ranks_phrase(left_out) + " in further situations", width);
  }
  return out + legend_of(job, width);
}

std::string coverage_gaps(const JobView& job, int width) {
  std::map<std::tuple<Rung, Stage, Reason, std::string>, RankSet> gaps;
  for (const RankView& rank : job.ranks) {
    for (const RungCoverage& coverage : rank.coverage) {
      const bool whole = coverage.stage == Stage::kFlowing && coverage.detail.empty();
      if (!is_shown(coverage.stage) || whole || rank.exit) continue;
      gaps[{coverage.rung, coverage.stage, coverage.reason, coverage.detail}].insert(rank.rank);
    }
  }
  std::string out;
  std::size_t lines = 0;
  for (const auto& [gap, ranks] : gaps) {
    const auto& [rung, stage, reason, detail] = gap;
    if (++lines > limits::kListLines) {
      return out + fmt::format("  and {} more\n", gaps.size() - limits::kListLines);
    }
    out += wrapped("  - ",
                   fmt::format("{} {}{} on {}{}", name_of(rung), name_of(stage),
                               reason == Reason::kNone ? "" : fmt::format(" ({})", name_of(reason)),
                               ranks_phrase(ranks), detail.empty() ? "" : ": " + detail),
                   width);
  }
  return out;
}

}  // namespace rung::view
