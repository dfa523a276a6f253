// Random observations and their comparison, member by member. A member that is added to a type
// stops these from compiling, so none can miss the round-trip test.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "model/observation.h"
#include "model/verdict.h"

namespace rung::testing {

template <class T>
constexpr int kMembers = 0;
template <>
inline constexpr int kMembers<ProcessKey> = 3;
template <>
inline constexpr int kMembers<JobId> = 1;
template <>
inline constexpr int kMembers<RankId> = 1;
template <>
inline constexpr int kMembers<DeviceId> = 1;
template <>
inline constexpr int kMembers<CommId> = 2;
template <>
inline constexpr int kMembers<CommRef> = 4;
template <>
inline constexpr int kMembers<Origin> = 5;
template <>
inline constexpr int kMembers<Observation> = 2;
template <>
inline constexpr int kMembers<LibraryFingerprint> = 4;
template <>
inline constexpr int kMembers<ProcessIdentity> = 14;
template <>
inline constexpr int kMembers<ProcessSample> = 12;
template <>
inline constexpr int kMembers<ProcessExit> = 2;
template <>
inline constexpr int kMembers<HostCallStats> = 3;
template <>
inline constexpr int kMembers<HostCallStats::Class> = 3;
template <>
inline constexpr int kMembers<InFlightCall> = 6;
template <>
inline constexpr int kMembers<CommEvent> = 2;
template <>
inline constexpr int kMembers<CollectiveSignature> = 5;
template <>
inline constexpr int kMembers<CollectiveEntry> = 2;
template <>
inline constexpr int kMembers<CollectiveBatch> = 4;
template <>
inline constexpr int kMembers<PointToPointStats> = 3;
template <>
inline constexpr int kMembers<PointToPointStats::Peer> = 4;
template <>
inline constexpr int kMembers<DeviceSample> = 19;
template <>
inline constexpr int kMembers<RungCoverage> = 6;
template <>
inline constexpr int kMembers<CoverageChange> = 1;
template <>
inline constexpr int kMembers<HealthEvent> = 3;
template <>
inline constexpr int kMembers<CpuPlace> = 3;

template <class T>
auto tied(T& t) {
  constexpr int n = kMembers<std::remove_const_t<T>>;
  static_assert(n > 0, "a type without its number of members");
  if constexpr (n == 1) {
    auto& [a] = t;
    return std::tie(a);
  } else if constexpr (n == 2) {
    auto& [a, b] = t;
    return std::tie(a, b);
  } else if constexpr (n == 3) {
    auto& [a, b, c] = t;
    return std::tie(a, b, c);
  } else if constexpr (n == 4) {
    auto& [a, b, c, d] = t;
    return std::tie(a, b, c, d);
  } else if constexpr (n == 5) {
    auto& [a, b, c, d, e] = t;
    return std::tie(a, b, c, d, e);
  } else if constexpr (n == 6) {
    auto& [a, b, c, d, e, f] = t;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (n == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (n == 14) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o);
  } else {
    static_assert(n == 19);
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, u] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, u);
  }
}

template <class T>
constexpr int kEnumSize = 0;
template <>
inline constexpr int kEnumSize<Source> = 6;
template <>
inline constexpr int kEnumSize<Rung> = 8;
template <>
inline constexpr int kEnumSize<Stage> = 10;
template <>
inline constexpr int kEnumSize<Reason> = 17;
template <>
inline constexpr int kEnumSize<LibraryKind> = 5;
template <>
inline constexpr int kEnumSize<ProcessState> = 6;
template <>
inline constexpr int kEnumSize<CommEvent::What> = 5;
template <>
inline constexpr int kEnumSize<CommId::Source> = 4;
template <>
inline constexpr int kEnumSize<HealthEvent::Kind> = 6;
template <>
inline constexpr int kEnumSize<CallClass> = 18;
template <>
inline constexpr int kEnumSize<CollectiveOp> = 11;

template <class T>
constexpr bool kIsVector = false;
template <class T>
constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
constexpr bool kIsTime = std::is_same_v<T, UnixNs> || std::is_same_v<T, std::chrono::nanoseconds>;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }

  template <class T>
  void fill(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = below(2) == 1;
    } else if constexpr (std::is_enum_v<T>) {
      static_assert(kEnumSize<T> > 0);
      value = static_cast<T>(below(kEnumSize<T>));
    } else if constexpr (std::is_integral_v<T>) {
      value = number<T>();
    } else if constexpr (std::is_same_v<T, double>) {
      value = real();
    } else if constexpr (kIsTime<T>) {
      value = T(std::chrono::nanoseconds(number<std::int64_t>()));
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = text();
    } else if constexpr (kIsOptional<T>) {
      value.reset();
      if (below(3) != 0) fill(value.emplace());
    } else if constexpr (kIsVector<T>) {
      value.resize(below(6));
      for (auto& element : value) fill(element);
    } else if constexpr (std::is_same_v<T, Evidence>) {
      fill_evidence(value, std::make_index_sequence<std::variant_size_v<Evidence>>());
    } else {
      std::apply([this](auto&... member) { (this->fill(member), ...); }, tied(value));
    }
  }

 private:
  template <class T>
  T number() {
    switch (below(5)) {
      case 0:
        return 0;
      case 1:
        return std::numeric_limits<T>::max();
      case 2:
        return std::numeric_limits<T>::min();
      default:
        return static_cast<T>(engine_() >> below(64));
    }
  }
  double real() {
    switch (below(4)) {
      case 0:
        return static_cast<double>(below(1000));
      case 1:
        return 0.1 * static_cast<double>(below(1000));
      case 2:
        return -1e300;
      default:
        return std::numeric_limits<double>::denorm_min();
    }
  }
  // Any bytes: names come from foreign programs.
  std::string text() {
    std::string out(below(12), '\0');
    for (char& c : out) c = static_cast<char>(below(256));
    return out;
  }
  template <std::size_t... I>
  void fill_evidence(Evidence& value, std::index_sequence<I...>) {
    const std::size_t wanted = below(sizeof...(I));
    ((wanted == I ? this->fill(value.emplace<I>()) : void()), ...);
  }

  std::mt19937_64 engine_;
};

template <class T>
bool same(const T& a, const T& b) {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || kIsTime<T> ||
                std::is_same_v<T, std::string>) {
    return a == b;
  } else if constexpr (kIsOptional<T>) {
    return a.has_value() == b.has_value() && (!a || same(*a, *b));
  } else if constexpr (kIsVector<T>) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!same(a[i], b[i])) return false;
    }
    return true;
  } else if constexpr (std::is_same_v<T, Evidence>) {
    if (a.index() != b.index()) return false;
    return std::visit(
        [&](const auto& x) { return same(x, std::get<std::remove_cvref_t<decltype(x)>>(b)); }, a);
  } else {
    return std::apply(
        [&](const auto&... x) {
          return std::apply([&](const auto&... y) { return (same(x, y) && ...); }, tied(b));
        },
        tied(a));
  }
}

}  // namespace rung::testing
