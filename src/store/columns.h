// How one field becomes one SQLite value and back, exactly.
//
// Integers of up to 64 bits, enumerations, times and durations (ns) are INTEGER; unsigned 64-bit
// numbers keep their bits (those above 2^63 read negative in SQL). An optional is NULL when
// unknown.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include "model/ids.h"
#include "model/rank_set.h"
#include "model/time.h"
#include "store/fields.h"

namespace rung::store {

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
inline constexpr bool kIsTimePoint = false;
template <class Tag>
inline constexpr bool kIsTimePoint<std::chrono::time_point<Axis<Tag>>> = true;

// Fields that are text in SQL.
template <class T>
concept TextField = std::same_as<T, std::string> || std::same_as<T, DeviceId> ||
                    std::same_as<T, char> || std::same_as<T, RankSet>;

template <class T>
constexpr const char* sql_type() {
  if constexpr (TextField<T>) {
    return "TEXT";
  } else if constexpr (std::same_as<T, double>) {
    return "REAL";
  } else {
    return "INTEGER";
  }
}

template <class T>
std::int64_t to_integer(const T& value) {
  if constexpr (std::same_as<T, RankId>) {
    return value.value;
  } else if constexpr (std::same_as<T, std::chrono::nanoseconds> || kIsTimePoint<T>) {
    return ns_of(value);
  } else {
    return static_cast<std::int64_t>(value);
  }
}

// Nothing when the number is no value of T.
template <class T>
std::optional<T> from_integer(std::int64_t number) {
  if constexpr (std::same_as<T, RankId>) {
    const auto rank = from_integer<std::int32_t>(number);
    return rank ? std::optional(RankId{*rank}) : std::nullopt;
  } else if constexpr (kIsTimePoint<T>) {
    return T(std::chrono::nanoseconds(number));
  } else if constexpr (std::same_as<T, std::chrono::nanoseconds>) {
    return T(number);
  } else if constexpr (std::is_enum_v<T>) {
    if (number < 0 || number >= kValuesOf<T>) return std::nullopt;
    return static_cast<T>(number);
  } else if constexpr (std::same_as<T, bool>) {
    if (number != 0 && number != 1) return std::nullopt;
    return number == 1;
  } else if constexpr (sizeof(T) == 8) {
    return static_cast<T>(number);
  } else {
    if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max()) {
      return std::nullopt;
    }
    return static_cast<T>(number);
  }
}

}  // namespace rung::store
