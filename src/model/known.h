// Known<T>: a value, or the reason why there is none. There is no value_or: unknown is not zero.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <variant>

namespace rung {

struct Unknown {
  std::string_view reason;  // a string literal
};

template <class T>
class [[nodiscard]] Known {
 public:
  Known() : content_(Unknown{"not observed"}) {}
  Known(T value) : content_(std::move(value)) {}
  Known(Unknown why) : content_(why) {}

  template <class F, class G>
  decltype(auto) match(F&& known, G&& unknown) const {
    if (const T* value = std::get_if<T>(&content_)) return known(*value);
    return unknown(std::get<Unknown>(content_));
  }

  // For places that print or store both cases: null when unknown.
  std::optional<T> maybe() const {
    const T* value = std::get_if<T>(&content_);
    return value != nullptr ? std::optional<T>(*value) : std::nullopt;
  }

 private:
  std::variant<T, Unknown> content_;
};

}  // namespace rung
