// Result<T>: a value or an Error with a code, a message and a hint. Exceptions never cross a room.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace rung {

// What kind of failure it is; the command line turns it into an exit code (exit_code below).
enum class ErrorCode {
  kUsage,         // the caller asked for something that makes no sense
  kBadInput,      // a file, a reply or a config is not what it claims to be
  kNotFound,      // no such job, process or file
  kUnavailable,   // a service or a kernel feature is not there now
  kNoPermission,  // a right or a capability is missing
  kInternal,      // our own bug
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // one line, no final dot
  std::string hint;     // what the reader can do about it; may be empty
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

inline tl::unexpected<Error> fail(ErrorCode code, std::string message, std::string hint = "") {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(hint)});
}

// As fail(), with ": <strerror(errno_value)>" appended; EPERM and EACCES become kNoPermission,
// ENOENT and ESRCH kNotFound, everything else `otherwise`.
tl::unexpected<Error> fail_errno(int errno_value, std::string message, std::string hint = "",
                                 ErrorCode otherwise = ErrorCode::kUnavailable);

// The sysexits value of a code: 64 usage, 65 bad input, 66 not found, 69 unavailable, 77 no
// permission, 70 our own bug.
int exit_code(ErrorCode code);

}  // namespace rung
