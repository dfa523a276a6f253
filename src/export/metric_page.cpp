#include "export/metric_page.h"

#include <fmt/format.h>

#include <cmath>

#include "base/strings.h"
#include "export/limits.h"

namespace rung::view {
namespace {

std::string label_value(std::string_view value) {
  std::string out;
  for (const char c : printable(value, limits::kLabelBytes)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string label_text(std::initializer_list<Label> labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "{" : ",", name, label_value(value));
  }
  return out.empty() ? out : out + "}";
}

std::string number_text(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

void MetricPage::add(const MetricFamily& family, std::initializer_list<Label> labels,
                     double value) {
  if (std::isnan(value)) return;
  const auto [at, is_new] = index_.try_emplace(family.name, families_.size());
  if (is_new) families_.push_back({family, "", {}});
  Family& known = families_[at->second];
  const std::string text = label_text(labels);
  if (!known.seen.insert(text).second) {
    ++duplicates_;
    return;
  }
  known.lines += fmt::format("{}{} {}\n", family.name, text, number_text(value));
}

std::string MetricPage::text() const {
  std::string out;
  for (const Family& family : families_) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family.about.name, family.about.help,
                       family.about.name,
                       family.about.type == MetricType::kCounter ? "counter" : "gauge");
    out += family.lines;
  }
  return out;
}

}  // namespace rung::view
