// Functions of a shared library by name: where each begins in the file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rung {

struct ElfFunction {
  std::size_t wanted = 0;         // index into the list of names asked for
  std::uint64_t file_offset = 0;  // of its first instruction
  std::array<std::uint8_t, 16> code{};
  std::size_t code_bytes = 0;  // of `code`; fewer than 16 at the end of a segment
};

struct ElfFunctions {
  std::string build_id;  // lower-case hex, "" when the file has none
  bool foreign_architecture = false;
  std::vector<ElfFunction> found;  // by file offset; one row for each offset
};

// Looks the names up in .dynsym and, where present, .symtab, of a 64-bit ELF file that `fd` is open
// on; empty names stand for nothing. Undefined symbols, data and symbols outside the executable
// segments are left out. Errors: kBadInput for what is not such a file.
Result<ElfFunctions> find_functions(int fd, std::span<const std::string_view> names);

// The same over a file in memory.
Result<ElfFunctions> find_functions(std::span<const std::uint8_t> file,
                                    std::span<const std::string_view> names);

}  // namespace rung
