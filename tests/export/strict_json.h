// A strict JSON checker, written apart from the writer that it judges.
#pragma once

#include <cctype>
#include <string_view>

namespace rung::testing {

class StrictJson {
 public:
  static bool valid(std::string_view text) {
    StrictJson json(text);
    return json.value(0) && json.rest_.empty();
  }

 private:
  explicit StrictJson(std::string_view text) : rest_(text) {}

  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool digits() {
    std::size_t n = 0;
    while (n < rest_.size() && std::isdigit(static_cast<unsigned char>(rest_[n]))) ++n;
    rest_.remove_prefix(n);
    return n > 0;
  }
  bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      return digits();
    }
    return true;
  }
  bool string() {
    if (!take('"')) return false;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') continue;
      if (rest_.empty()) return false;
      const char escape = rest_.front();
      rest_.remove_prefix(1);
      if (escape == 'u') {
        for (int i = 0; i < 4; ++i) {
          if (rest_.empty() || !std::isxdigit(static_cast<unsigned char>(rest_.front()))) {
            return false;
          }
          rest_.remove_prefix(1);
        }
      } else if (std::string_view("\"\\/bfnrt").find(escape) == std::string_view::npos) {
        return false;
      }
    }
    return false;
  }
  bool members(char end, int depth, bool keyed) {
    if (take(end)) return true;
    do {
      if (keyed && (!string() || !take(':'))) return false;
      if (!value(depth + 1)) return false;
    } while (take(','));
    return take(end);
  }
  bool value(int depth) {
    if (depth > 64) return false;
    if (take('{')) return members('}', depth, true);
    if (take('[')) return members(']', depth, false);
    if (!rest_.empty() && rest_.front() == '"') return string();
    return word("true") || word("false") || word("null") || number();
  }

  std::string_view rest_;
};

}  // namespace rung::testing
