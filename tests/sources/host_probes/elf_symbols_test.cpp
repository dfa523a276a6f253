#include "sources/host_probes/elf_symbols.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/fd.h"
#include "base/files.h"
#include "sources/host_probes/prologue.h"

namespace rung {
namespace {

const std::string kLibrary = std::string(RUNG_PROBE_FIXTURES) + "/libcuda.so.1";
constexpr std::string_view kNames[] = {"cuLaunchKernel", "cuMemcpyAsync", "cuNoSuchThing", ""};

TEST(ElfSymbols, FindsFunctionsTheirCodeAndTheBuildId) {
  const Fd file(open(kLibrary.c_str(), O_RDONLY | O_CLOEXEC));
  const auto found = find_functions(file.get(), kNames);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->build_id, RUNG_PROBE_KNOWN_ID);
  EXPECT_FALSE(found->foreign_architecture);
  ASSERT_EQ(found->found.size(), 2u);
  for (const ElfFunction& function : found->found) {
    const auto point = classify_prologue({function.code.data(), function.code_bytes}, true);
    EXPECT_EQ(point.prologue,
              function.wanted == 0 ? PrologueClass::kPush : PrologueClass::kEndbrThen);
  }
}

TEST(ElfSymbols, AFileInMemoryGivesTheSame) {
  const auto text = read_file(kLibrary, 1 << 20);
  ASSERT_TRUE(text);
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(text->data()), text->size());
  const auto found = find_functions(bytes, kNames);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->found.size(), 2u);
}

TEST(ElfSymbols, ForeignFilesAreErrors) {
  const std::uint8_t text[] = "#!/bin/sh\n";
  const auto found = find_functions(text, kNames);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kBadInput);
  EXPECT_FALSE(find_functions(std::span<const std::uint8_t>(), kNames));
}

TEST(ElfSymbols, AFileCutAnywhereDoesNoHarm) {
  const auto text = read_file(kLibrary, 1 << 20);
  ASSERT_TRUE(text);
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(text->data()), text->size());
  for (std::size_t size = 0; size < bytes.size(); size += 97) {
    const auto found = find_functions(bytes.first(size), kNames);
    if (!found) continue;
    EXPECT_LE(found->found.size(), 2u);
  }
}

}  // namespace
}  // namespace rung
