// JsonWriter: builds one JSON document in memory, in order. Misuse (a value without a key inside
// an object) is a bug of the caller and shows as invalid JSON; tests parse what we print.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rung {

class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);

  // Invalid UTF-8 is replaced by U+FFFD; control characters are escaped.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth);
  JsonWriter& value(double number);  // NaN and infinity become null
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  JsonWriter& value(I number) {
    return raw(std::to_string(number));
  }
  JsonWriter& null();
  template <class T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : null();
  }
  // key() and value() in one.
  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    key(name);
    return value(content);
  }

  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  JsonWriter& raw(std::string_view token);
  void comma();

  std::string text_;
  std::vector<bool> first_{true};
  bool after_key_ = false;
};

}  // namespace rung
