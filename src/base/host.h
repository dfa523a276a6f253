// The host that this program runs on.
#pragma once

#include <string>

namespace rung {

// As gethostname(2) tells it; "" when it cannot be had.
std::string host_name();

}  // namespace rung
