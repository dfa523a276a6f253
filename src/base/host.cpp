#include "base/host.h"

#include <unistd.h>

#include <array>

namespace rung {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "";
}

}  // namespace rung
