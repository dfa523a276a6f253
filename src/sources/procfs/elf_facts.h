// What an ELF file says of itself, read through libelf with bounded reads and no mapping (a file
// that is truncated while it is read must not raise SIGBUS).
#pragma once

#include <string>

#include "base/result.h"

namespace rung {

struct ElfFacts {
  std::string build_id;      // lower-case hex of NT_GNU_BUILD_ID, "" when there is none
  std::string nccl_version;  // X.Y.Z after "NCCL version " in read-only data, "" when not there
  bool simulated = false;    // exports the dynamic symbol rung_simulated
};

// `fd` is a regular file open for reading; its offset is not used. The version is searched only
// when `search_nccl` is set, in at most 64 MiB of read-only data. Errors: kBadInput.
Result<ElfFacts> read_elf_facts(int fd, bool search_nccl);

}  // namespace rung
