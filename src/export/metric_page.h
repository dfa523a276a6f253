// MetricPage: builds a page in the Prometheus text exposition format 0.0.4 that is valid by
// construction: one HELP and TYPE for each family, its series together, no series twice.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace rung::view {

enum class MetricType { kGauge, kCounter };

struct MetricFamily {
  const char* name;  // string literals all
  MetricType type;
  const char* help;
};

using Label = std::pair<std::string_view, std::string_view>;

class MetricPage {
 public:
  // Adds a series. Label values are made printable, cut at limits::kLabelBytes and escaped; NaN and
  // unknown values give no series, nor does a second one with the same labels: it is counted.
  void add(const MetricFamily& family, std::initializer_list<Label> labels, double value);
  template <class T>
  void add(const MetricFamily& family, std::initializer_list<Label> labels,
           const std::optional<T>& value) {
    if (value) add(family, labels, static_cast<double>(*value));
  }

  std::size_t duplicates() const { return duplicates_; }
  std::string text() const;

 private:
  struct Family {
    MetricFamily about;
    std::string lines;
    std::unordered_set<std::string> seen;
  };
  std::vector<Family> families_;  // in order of first use
  std::unordered_map<std::string_view, std::size_t> index_;
  std::size_t duplicates_ = 0;
};

}  // namespace rung::view
