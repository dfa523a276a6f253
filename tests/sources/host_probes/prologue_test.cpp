#include "sources/host_probes/prologue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rung {
namespace {

struct Row {
  const char* name;
  std::vector<std::uint8_t> code;
  PrologueClass short_nops, long_nops;
  std::uint64_t skip;
};

class Prologue : public ::testing::TestWithParam<Row> {};

TEST_P(Prologue, IsClassifiedAsTheKernelTreatsIt) {
  const Row& row = GetParam();
  EXPECT_EQ(classify_prologue(row.code, false).prologue, row.short_nops);
  EXPECT_EQ(classify_prologue(row.code, true).prologue, row.long_nops);
  EXPECT_EQ(classify_prologue(row.code, true).skip, row.skip);
}

using enum PrologueClass;

INSTANTIATE_TEST_SUITE_P(
    Table, Prologue,
    ::testing::Values(
        Row{"push_rbp", {0x55, 0x48, 0x89, 0xe5}, kPush, kPush, 0},
        Row{"push_r15", {0x41, 0x57, 0x41, 0x56}, kPush, kPush, 0},
        Row{"push_with_rex_w", {0x48, 0x55, 0x90, 0x90}, kSingleStepped, kSingleStepped, 0},
        Row{"nop", {0x90, 0x55}, kNop, kNop, 0},
        Row{"nop2", {0x66, 0x90, 0x55}, kSingleStepped, kNop, 0},
        Row{"nop5", {0x0f, 0x1f, 0x44, 0x00, 0x00}, kSingleStepped, kNop, 0},
        Row{"nop6", {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00}, kSingleStepped, kNop, 0},
        Row{"jmp_short", {0xeb, 0x10}, kBranch, kBranch, 0},
        Row{"jmp_near", {0xe9, 1, 0, 0, 0}, kBranch, kBranch, 0},
        Row{"call_near", {0xe8, 1, 0, 0, 0}, kBranch, kBranch, 0},
        Row{"jne_short", {0x75, 0x10}, kBranch, kBranch, 0},
        Row{"jne_near", {0x0f, 0x85, 1, 0, 0, 0}, kBranch, kBranch, 0},
        Row{"ret", {0xc3, 0xcc}, kSingleStepped, kSingleStepped, 0},
        Row{"sub_rsp", {0x48, 0x83, 0xec, 0x08}, kSingleStepped, kSingleStepped, 0},
        Row{"lea", {0x48, 0x8d, 0x05, 0, 0, 0, 0}, kSingleStepped, kSingleStepped, 0},
        Row{"movabs", {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8}, kSingleStepped, kSingleStepped, 0},
        Row{"jmp_indirect", {0xff, 0x25, 0, 0, 0, 0}, kSingleStepped, kSingleStepped, 0},
        Row{"endbr64_push", {0xf3, 0x0f, 0x1e, 0xfa, 0x55}, kEndbrThen, kEndbrThen, 4},
        Row{"endbr64_jmp", {0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 1, 0, 0, 0}, kEndbrThen, kEndbrThen, 4},
        Row{"endbr64_sub",
            {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x08},
            kSingleStepped,
            kSingleStepped,
            0},
        Row{"endbr64_at_the_end", {0xf3, 0x0f, 0x1e, 0xfa}, kSingleStepped, kSingleStepped, 0},
        Row{"nothing", {}, kUnreadable, kUnreadable, 0},
        Row{"half_a_jump", {0xe9, 1}, kUnreadable, kUnreadable, 0}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace rung
