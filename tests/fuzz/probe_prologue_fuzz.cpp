// The first bytes of a foreign function.
#include <cstdint>
#include <cstdlib>

#include "sources/host_probes/prologue.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const bool long_nops : {false, true}) {
    const auto point = rung::classify_prologue({data, size}, long_nops);
    // A probe never lands outside the bytes that were looked at.
    if (point.prologue != rung::PrologueClass::kUnreadable && point.skip >= size) std::abort();
  }
  return 0;
}
