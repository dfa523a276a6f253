// What a probe on the first instruction of a function would cost.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace rung {

enum class PrologueClass : std::uint8_t {
  kPush,           // push of a register: emulated
  kNop,            // a nop, one or more bytes: emulated
  kBranch,         // jmp, call or a conditional jump, relative: emulated
  kEndbrThen,      // endbr64, then one of the above: probed at +4
  kSingleStepped,  // executed out of line with a trap: some 17 times dearer
  kUnreadable,     // fewer bytes than an instruction needs
};
const char* name_of(PrologueClass prologue);  // "push", "nop"...

struct ProbePoint {
  PrologueClass prologue = PrologueClass::kUnreadable;
  std::uint64_t skip = 0;  // bytes from the start of the function to the probed instruction
};

// Classifies x86-64 code by what arch/x86/kernel/uprobes.c emulates. `code` is the start of the
// function, 16 bytes are enough. `long_nops`: the kernel emulates multi-byte nops (since 6.18).
// The arguments of the function are untouched at the point returned.
ProbePoint classify_prologue(std::span<const std::uint8_t> code, bool long_nops);

}  // namespace rung
