#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/files.h"
#include "base/strings.h"
#include "base/toml.h"
#include "fabric/fabric.h"
#include "rung_sim/runner.h"

namespace rung::sim {
namespace {

constexpr std::array<std::pair<Fault::Kind, const char*>, 10> kFaultNames{{
    {Fault::Kind::kSleepBeforeCollective, "sleep_before_collective"},
    {Fault::Kind::kCollectiveSize, "collective_size"},
    {Fault::Kind::kSkipCollective, "skip_collective"},
    {Fault::Kind::kKill, "kill"},
    {Fault::Kind::kStop, "stop"},
    {Fault::Kind::kNoneCompletes, "none_completes"},
    {Fault::Kind::kKernelNeverEnds, "kernel_never_ends"},
    {Fault::Kind::kCheckpoint, "checkpoint"},
    {Fault::Kind::kSlow, "slow"},
    {Fault::Kind::kInitMissing, "init_missing"},
}};

constexpr std::size_t kMaxScenarioBytes = 64 << 10;

// Reads the keys of one table, and remembers the first thing that is wrong with it.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string where)
      : table_(table), where_(std::move(where)) {}

  template <class T>
  void read(std::string_view key, T& value) {
    known_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    const auto got = node->value<T>();
    if (!got) return blame(*node, std::string(key) + " has the wrong type");
    value = *got;
  }

  template <class T>
  void read(std::string_view key, std::optional<T>& value) {
    if (table_.contains(key)) read(key, value.emplace());
    known_.emplace_back(key);
  }

  void read(std::string_view key, std::int32_t& value) {
    std::int64_t wide = value;
    read(key, wide);
    if (wide < 0 || wide > INT32_MAX) return blame(table_, std::string(key) + " is out of range");
    value = static_cast<std::int32_t>(wide);
  }

  template <class T>
  void read_list(std::string_view key, std::vector<T>& values) {
    known_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) return blame(*node, std::string(key) + " is not a list");
    for (const toml::node& element : *array) {
      const auto got = element.value<T>();
      if (!got) return blame(element, std::string(key) + " has an element of the wrong type");
      values.push_back(*got);
    }
  }

  const toml::node* child(std::string_view key) {
    known_.emplace_back(key);
    return table_.get(key);
  }

  void blame(const toml::node& node, const std::string& what) {
    if (!wrong_.empty()) return;
    wrong_ = where_ + " line " + std::to_string(node.source().begin.line) + ": " + what;
  }

  // The complaint, also about keys that nobody asked for; "" if all is well.
  std::string finish() {
    for (const auto& [key, node] : table_) {
      if (std::ranges::find(known_, key.str()) == known_.end()) {
        blame(node, "unknown key " + printable(key.str(), 40));
      }
    }
    return wrong_;
  }

 private:
  const toml::table& table_;
  std::string where_;
  std::vector<std::string> known_;
  std::string wrong_;
};

tl::unexpected<Error> bad(std::string what) {
  return fail(ErrorCode::kBadInput, std::move(what), "see sim/scenarios/healthy.toml");
}

Result<Fault> parse_fault(const toml::table& table, const std::string& origin) {
  TableReader reader(table, origin);
  Fault fault;
  std::string kind;
  reader.read("kind", kind);
  reader.read("rank", fault.rank);
  reader.read("at_step", fault.at_step);
  reader.read("at_s", fault.at_s);
  reader.read("for_s", fault.for_s);
  reader.read("factor", fault.factor);
  const auto named =
      std::ranges::find_if(kFaultNames, [&](const auto& entry) { return entry.second == kind; });
  if (named == kFaultNames.end()) {
    reader.blame(table, "unknown fault kind '" + printable(kind, 40) + "'");
  } else {
    fault.kind = named->first;
  }
  if (const std::string wrong = reader.finish(); !wrong.empty()) return bad(wrong);
  return fault;
}

Result<std::vector<Fault>> parse_faults(const toml::node* node, const std::string& origin) {
  std::vector<Fault> faults;
  if (node == nullptr) return faults;
  if (!node->is_array()) return bad(origin + ": faults is not a list of tables");
  for (const toml::node& element : *node->as_array()) {
    if (!element.is_table()) return bad(origin + ": faults is not a list of tables");
    auto fault = parse_fault(*element.as_table(), origin);
    if (!fault) return tl::unexpected(fault.error());
    faults.push_back(*fault);
  }
  return faults;
}

Result<Label> parse_label(const toml::node* node, const std::string& origin) {
  Label label;
  if (node == nullptr || !node->is_table()) return bad(origin + ": the table [label] is missing");
  TableReader reader(*node->as_table(), origin);
  std::vector<std::string> expected;
  std::vector<std::int64_t> ranks;
  reader.read_list("expected", expected);
  reader.read_list("ranks", ranks);
  reader.read_list("forbidden", label.forbidden);
  for (const std::string& alternatives : expected) {
    const auto parts = split(alternatives, '|');
    label.expected.emplace_back(parts.begin(), parts.end());
  }
  for (const std::int64_t rank : ranks) label.ranks.push_back(static_cast<std::int32_t>(rank));
  if (const std::string wrong = reader.finish(); !wrong.empty()) return bad(wrong);
  return label;
}

Result<Layout> parse_layout(const toml::node* node, std::int32_t world_size,
                            const std::string& origin) {
  Layout layout{1, 1, world_size};
  if (node == nullptr) return layout;
  if (!node->is_table()) return bad(origin + ": layout is not a table");
  TableReader reader(*node->as_table(), origin);
  reader.read("tensor", layout.tensor);
  reader.read("pipeline", layout.pipeline);
  reader.read("data", layout.data);
  if (const std::string wrong = reader.finish(); !wrong.empty()) return bad(wrong);
  return layout;
}

Result<void> check_fault(const Fault& fault, const Scenario& scenario) {
  const std::string name = name_of(fault.kind);
  if (fault.rank < 0 || fault.rank >= scenario.world_size) {
    return bad("fault " + name + " names a rank outside the world of " +
               std::to_string(scenario.world_size));
  }
  const bool timed = fault.at_step.has_value() || fault.at_s.has_value();
  const bool wants_time = fault.kind != Fault::Kind::kInitMissing;
  if (timed != wants_time || (fault.at_step && fault.at_s)) {
    return bad("fault " + name + (wants_time ? " needs either at_step or at_s" : " takes no time"));
  }
  const bool sane = fault.at_step.value_or(0) >= 0 && fault.at_s.value_or(0) >= 0 &&
                    fault.for_s.value_or(0) >= 0 && fault.for_s.value_or(0) < 1e6 &&
                    fault.at_s.value_or(0) < 1e6 && fault.factor >= 1 && fault.factor <= 1000;
  if (!sane) return bad("fault " + name + " has a number out of range");
  return {};
}

}  // namespace

const char* name_of(Fault::Kind kind) {
  const auto found =
      std::ranges::find(kFaultNames, kind, &std::pair<Fault::Kind, const char*>::first);
  return found == kFaultNames.end() ? "unknown" : found->second;
}

Result<void> check(const Scenario& scenario) {
  if (scenario.world_size < 1 || scenario.world_size > static_cast<std::int32_t>(kMaxRanks)) {
    return bad("world_size must be 1 to " + std::to_string(kMaxRanks));
  }
  const Layout& layout = scenario.layout;
  const std::int64_t product = std::int64_t{layout.tensor} * layout.pipeline * layout.data;
  if (layout.tensor < 1 || layout.pipeline < 1 || product != scenario.world_size) {
    return bad("layout tensor x pipeline x data must give world_size");
  }
  if (!(scenario.step_ms >= 5 && scenario.step_ms <= 60000)) {
    return bad("step_ms must be 5 to 60000");
  }
  if (!(scenario.startup_s >= 0 && scenario.startup_s <= 600)) {
    return bad("startup_s must be 0 to 600");
  }
  if (scenario.steps < 0) return bad("steps must not be negative");
  for (const Fault& fault : scenario.faults) {
    if (auto checked = check_fault(fault, scenario); !checked) return checked;
  }
  return {};
}

Result<Scenario> parse_scenario(const std::string& text, const std::string& origin) {
  // toml++ 3.3 has undefined behaviour for some characters above U+FC00.
  const auto odd = std::ranges::find_if(text, [](char c) { return (c & 0x80) != 0; });
  if (odd != text.end()) {
    const auto line = 1 + std::count(text.begin(), odd, '\n');
    return bad(origin + " line " + std::to_string(line) + ": not ASCII");
  }
  const toml::parse_result parsed = toml::parse(text, origin);
  if (!parsed) {
    return bad(origin + " line " + std::to_string(parsed.error().source().begin.line) + ": " +
               printable(parsed.error().description()));
  }
  TableReader reader(parsed.table(), origin);
  Scenario scenario;
  std::string waits = "sleep";
  reader.read("name", scenario.name);
  reader.read("description", scenario.description);
  reader.read("world_size", scenario.world_size);
  reader.read("step_ms", scenario.step_ms);
  reader.read("startup_s", scenario.startup_s);
  reader.read("steps", scenario.steps);
  reader.read("waits", waits);
  reader.read("tear_down", scenario.tear_down);
  auto layout = parse_layout(reader.child("layout"), scenario.world_size, origin);
  auto faults = parse_faults(reader.child("faults"), origin);
  auto label = parse_label(reader.child("label"), origin);
  if (scenario.name.empty()) reader.blame(parsed.table(), "name is missing");
  if (waits != "sleep" && waits != "spin") reader.blame(parsed.table(), "waits is sleep or spin");
  if (const std::string wrong = reader.finish(); !wrong.empty()) return bad(wrong);
  if (!layout) return tl::unexpected(layout.error());
  if (!faults) return tl::unexpected(faults.error());
  if (!label) return tl::unexpected(label.error());
  scenario.spin = waits == "spin";
  scenario.layout = *layout;
  scenario.faults = std::move(*faults);
  scenario.label = std::move(*label);
  if (auto checked = check(scenario); !checked) {
    return bad(origin + ": " + checked.error().message);
  }
  return scenario;
}

std::string to_toml(const Scenario& scenario) {
  toml::array faults;
  for (const Fault& fault : scenario.faults) {
    toml::table table{{"kind", name_of(fault.kind)}, {"rank", fault.rank}};
    if (fault.at_step) table.insert("at_step", *fault.at_step);
    if (fault.at_s) table.insert("at_s", *fault.at_s);
    if (fault.for_s) table.insert("for_s", *fault.for_s);
    table.insert("factor", fault.factor);
    faults.push_back(std::move(table));
  }
  toml::array expected;
  for (const auto& alternatives : scenario.label.expected) {
    std::string joined;
    for (const std::string& kind : alternatives) joined += (joined.empty() ? "" : "|") + kind;
    expected.push_back(joined);
  }
  toml::array ranks, forbidden;
  for (const std::int32_t rank : scenario.label.ranks) ranks.push_back(rank);
  for (const std::string& kind : scenario.label.forbidden) forbidden.push_back(kind);
  const toml::table table{
      {"name", scenario.name},
      {"description", scenario.description},
      {"world_size", scenario.world_size},
      {"step_ms", scenario.step_ms},
      {"startup_s", scenario.startup_s},
      {"steps", scenario.steps},
      {"waits", scenario.spin ? "spin" : "sleep"},
      {"tear_down", scenario.tear_down},
      {"layout", toml::table{{"tensor", scenario.layout.tensor},
                             {"pipeline", scenario.layout.pipeline},
                             {"data", scenario.layout.data}}},
      {"faults", std::move(faults)},
      {"label", toml::table{{"expected", std::move(expected)},
                            {"ranks", std::move(ranks)},
                            {"forbidden", std::move(forbidden)}}},
  };
  std::ostringstream text;
  // Basic strings only: a literal one cannot hold every text.
  text << toml::toml_formatter(table, toml::format_flags::none) << '\n';
  return text.str();
}

Result<Scenario> apply(Scenario scenario, const Overrides& overrides) {
  if (overrides.world_size && *overrides.world_size != scenario.world_size) {
    if (scenario.layout.tensor != 1 || scenario.layout.pipeline != 1) {
      return fail(ErrorCode::kUsage, "the world size of " + scenario.name + " is fixed",
                  "its layout has tensor and pipeline groups");
    }
    scenario.world_size = scenario.layout.data = *overrides.world_size;
  }
  scenario.step_ms = overrides.step_ms.value_or(scenario.step_ms);
  if (overrides.duration_s) {
    scenario.steps = static_cast<std::int64_t>(
        std::ceil(std::clamp(*overrides.duration_s, 0.0, 1e7) * 1000 / scenario.step_ms));
  }
  scenario.steps = overrides.steps.value_or(scenario.steps);
  scenario.spin = overrides.spin.value_or(scenario.spin);
  scenario.tear_down = overrides.tear_down.value_or(scenario.tear_down);
  for (Fault& fault : scenario.faults) {
    if (overrides.fault_for_s) fault.for_s = overrides.fault_for_s;
    if (fault.kind == Fault::Kind::kInitMissing) continue;
    if (overrides.fault_at_step) {
      fault.at_step = overrides.fault_at_step;
      fault.at_s.reset();
    }
    if (overrides.fault_at_s) {
      fault.at_s = overrides.fault_at_s;
      fault.at_step.reset();
    }
  }
  if (auto checked = check(scenario); !checked) return tl::unexpected(checked.error());
  return scenario;
}

Result<std::string> find_home(const std::string& home) {
  std::vector<std::string> candidates;
  if (!home.empty()) candidates.push_back(home);
  if (const char* named = std::getenv("RUNG_SIM_HOME")) candidates.emplace_back(named);
  if (const auto self = read_link("/proc/self/exe")) {
    const std::string folder = std::filesystem::path(*self).parent_path().string();
    for (const char* near : {"/sim", "/../sim", "/../lib/rung/sim"}) {
      candidates.push_back(folder + near);
    }
  }
  for (const std::string& candidate : candidates) {
    std::error_code error;
    if (std::filesystem::exists(candidate + "/rung-sim-rank", error)) {
      return std::filesystem::absolute(candidate, error).lexically_normal().string();
    }
  }
  return fail(ErrorCode::kNotFound, "the simulator's files were not found",
              "set RUNG_SIM_HOME to the folder that holds rung-sim-rank");
}

Result<std::string> nvml_library(const std::string& home) {
  auto found = find_home(home);
  if (!found) return found;
  return *found + "/libnvidia-ml.so.1";
}

Result<Scenario> load_scenario(const std::string& name_or_path, const std::string& home) {
  std::string path = name_or_path;
  if (path.find('/') == path.npos && !path.ends_with(".toml")) {
    auto found = find_home(home);
    if (!found) return tl::unexpected(found.error());
    path = *found + "/scenarios/" + path + ".toml";
    if (std::error_code error; !std::filesystem::exists(path, error)) {
      return fail(ErrorCode::kNotFound, "no scenario '" + printable(name_or_path, 60) + "'",
                  "the scenarios are in " + *found + "/scenarios");
    }
  }
  const auto text = read_file(path, kMaxScenarioBytes);
  if (!text) return tl::unexpected(text.error());
  return parse_scenario(*text, std::filesystem::path(path).filename().string());
}

Result<std::vector<Scenario>> list_scenarios(const std::string& home) {
  auto found = find_home(home);
  if (!found) return tl::unexpected(found.error());
  constexpr std::size_t kMaxScenarios = 1000;
  auto names = list_folder(*found + "/scenarios", kMaxScenarios);
  if (!names) return tl::unexpected(names.error());
  std::ranges::sort(*names);
  std::vector<Scenario> scenarios;
  for (const std::string& name : *names) {
    if (!name.ends_with(".toml")) continue;
    auto scenario = load_scenario(*found + "/scenarios/" + name, home);
    if (!scenario) return tl::unexpected(scenario.error());
    scenarios.push_back(std::move(*scenario));
  }
  return scenarios;
}

}  // namespace rung::sim
