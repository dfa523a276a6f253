#include "sources/host_probes/prologue.h"

#include <cstddef>

namespace rung {
namespace {

using Code = std::span<const std::uint8_t>;

constexpr std::uint8_t kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

bool starts_with_endbr64(Code code) {
  return code.size() >= sizeof kEndbr64 && std::equal(kEndbr64, kEndbr64 + 4, code.begin());
}

PrologueClass classify_nop(Code code, bool long_nops) {
  if (code[0] == 0x90) return PrologueClass::kNop;
  std::size_t at = 0;
  while (at < code.size() && code[at] == 0x66) ++at;
  if (at + 1 < code.size() && at > 0 && code[at] == 0x90) {
    return long_nops ? PrologueClass::kNop : PrologueClass::kSingleStepped;
  }
  if (at + 2 < code.size() && code[at] == 0x0f && code[at + 1] == 0x1f &&
      (code[at + 2] & 0x38) == 0) {
    return long_nops ? PrologueClass::kNop : PrologueClass::kSingleStepped;
  }
  return PrologueClass::kSingleStepped;
}

PrologueClass classify_instruction(Code code, bool long_nops) {
  if (code.empty()) return PrologueClass::kUnreadable;
  const std::uint8_t first = code[0];
  if (first >= 0x50 && first <= 0x57) return PrologueClass::kPush;
  if (code.size() < 2) return PrologueClass::kUnreadable;
  // A REX.B prefix makes it r8 to r15; with other REX bits the kernel steps it.
  if (first == 0x41 && code[1] >= 0x50 && code[1] <= 0x57) return PrologueClass::kPush;
  if (first == 0xeb || (first >= 0x70 && first <= 0x7f)) return PrologueClass::kBranch;
  if (first == 0xe9 || first == 0xe8) {
    return code.size() >= 5 ? PrologueClass::kBranch : PrologueClass::kUnreadable;
  }
  if (first == 0x0f && code[1] >= 0x80 && code[1] <= 0x8f) {
    return code.size() >= 6 ? PrologueClass::kBranch : PrologueClass::kUnreadable;
  }
  return classify_nop(code, long_nops);
}

}  // namespace

const char* name_of(PrologueClass prologue) {
  switch (prologue) {
    case PrologueClass::kPush:
      return "push";
    case PrologueClass::kNop:
      return "nop";
    case PrologueClass::kBranch:
      return "branch";
    case PrologueClass::kEndbrThen:
      return "endbr64+4";
    case PrologueClass::kSingleStepped:
      return "single-stepped";
    case PrologueClass::kUnreadable:
      return "unreadable";
  }
  return "unreadable";
}

ProbePoint classify_prologue(Code code, bool long_nops) {
  if (starts_with_endbr64(code)) {
    const PrologueClass next = classify_instruction(code.subspan(4), long_nops);
    const bool emulated = next == PrologueClass::kPush || next == PrologueClass::kNop ||
                          next == PrologueClass::kBranch;
    if (emulated) return {PrologueClass::kEndbrThen, 4};
    return {PrologueClass::kSingleStepped, 0};
  }
  return {classify_instruction(code, long_nops), 0};
}

}  // namespace rung
