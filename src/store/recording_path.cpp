#include "store/recording_path.h"

#include <cerrno>
#include <cstdlib>
#include <memory>

namespace rung::store {

Result<std::string> real_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string last = slash == std::string::npos ? path : path.substr(slash + 1);
  if (last.empty() || last == "." || last == "..") {
    return fail(ErrorCode::kUsage, "\"" + path + "\" names no file");
  }
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(folder.c_str(), nullptr),
                                                         &std::free);
  if (!real) return fail_errno(errno, "cannot open folder " + folder);
  const std::string resolved = real.get();
  return resolved == "/" ? resolved + last : resolved + "/" + last;
}

std::string file_uri(const std::string& path, const std::string& parameters) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      const auto byte = static_cast<unsigned char>(c);
      uri += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      uri += c;
    }
  }
  return uri + "?" + parameters;
}

}  // namespace rung::store
