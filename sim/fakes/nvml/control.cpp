#include "fakes/nvml/control.h"

#include <charconv>

namespace rung::sim {
namespace {

// The next word of the line, which is removed from it; empty at its end.
std::string_view next_word(std::string_view& line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return line = {};
  const std::size_t end = line.find_first_of(" \t\r", begin);
  const std::string_view word = line.substr(begin, end == line.npos ? line.npos : end - begin);
  line = end == line.npos ? std::string_view{} : line.substr(end);
  return word;
}

template <class T>
std::optional<T> number(std::string_view word) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> milliseconds(std::string_view word) {
  if (word == "forever") return NvmlControl::kForever;
  const auto seconds = number<double>(word);
  if (!seconds || !(*seconds >= 0 && *seconds <= 1e6)) return std::nullopt;
  return static_cast<std::int64_t>(*seconds * 1000);
}

void parse_line(std::string_view line, NvmlControl& control) {
  const std::string_view verb = next_word(line);
  if (verb != "block" && verb != "error" && verb != "set") return;
  NvmlControl::Rule rule;
  rule.name = next_word(line);
  const std::string_view value_word = next_word(line);
  const auto value = verb == "block" ? milliseconds(value_word) : number<std::int64_t>(value_word);
  if (rule.name.empty() || !value) return;
  rule.value = *value;
  if (const std::string_view device = next_word(line); !device.empty()) {
    rule.device = number<int>(device);
    if (!rule.device) return;
  }
  auto& rules = verb == "block"   ? control.blocks
                : verb == "error" ? control.errors
                                  : control.settings;
  rules.push_back(std::move(rule));
}

}  // namespace

bool NvmlControl::Rule::matches(std::string_view asked, std::optional<int> of_device) const {
  return (name == "*" || name == asked) && (!device || device == of_device);
}

NvmlControl parse_nvml_control(std::string_view text) {
  NvmlControl control;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    parse_line(text.substr(0, end), control);
    text = end == text.npos ? std::string_view{} : text.substr(end + 1);
  }
  return control;
}

std::optional<std::int64_t> value_of(const std::vector<NvmlControl::Rule>& rules,
                                     std::string_view name, std::optional<int> device) {
  std::optional<std::int64_t> value;
  for (const NvmlControl::Rule& rule : rules) {
    if (rule.matches(name, device)) value = rule.value;
  }
  return value;
}

}  // namespace rung::sim
