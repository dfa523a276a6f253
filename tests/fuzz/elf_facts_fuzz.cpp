// A library file that a process maps and may have made itself.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "sources/procfs/elf_facts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int fd = ::memfd_create("elf_facts_fuzz", MFD_CLOEXEC);
  if (fd < 0) return 0;
  if (::write(fd, data, size) == static_cast<ssize_t>(size)) {
    const auto facts = rung::read_elf_facts(fd, true);
    if (facts && facts->build_id.size() > 128) __builtin_trap();
  }
  ::close(fd);
  return 0;
}
