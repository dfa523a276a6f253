#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace rung {

tl::unexpected<Error> fail_errno(int errno_value, std::string message, std::string hint,
                                 ErrorCode otherwise) {
  ErrorCode code = otherwise;
  if (errno_value == EPERM || errno_value == EACCES) code = ErrorCode::kNoPermission;
  if (errno_value == ENOENT || errno_value == ESRCH) code = ErrorCode::kNotFound;
  message += ": ";
  message += std::strerror(errno_value);
  return fail(code, std::move(message), std::move(hint));
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return 64;
    case ErrorCode::kBadInput:
      return 65;
    case ErrorCode::kNotFound:
      return 66;
    case ErrorCode::kUnavailable:
      return 69;
    case ErrorCode::kNoPermission:
      return 77;
    case ErrorCode::kInternal:
      return 70;
  }
  return 70;
}

}  // namespace rung
