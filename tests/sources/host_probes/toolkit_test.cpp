// The tables of abi/ against NVIDIA's own files, where a toolkit is installed.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "abi/cuda_calls.h"
#include "abi/nccl_calls.h"
#include "abi/nccl_layout.h"
#include "base/fd.h"
#include "bpf/host_probes.h"
#include "sources/host_probes/elf_symbols.h"
#include "sources/host_probes/function_table.h"
#include "sources/host_probes/prologue.h"

#if defined(RUNG_TOOLKIT_INCLUDE)
#include <cuda.h>

// What the eBPF program reads of the copy descriptors.
static_assert(offsetof(CUDA_MEMCPY2D, WidthInBytes) == 112);
static_assert(offsetof(CUDA_MEMCPY2D, Height) == 120);
static_assert(offsetof(CUDA_MEMCPY3D, WidthInBytes) == 176);
static_assert(offsetof(CUDA_MEMCPY3D, Height) == 184);
static_assert(offsetof(CUDA_MEMCPY3D, Depth) == 192);
static_assert(offsetof(CUDA_MEMCPY3D_PEER, WidthInBytes) == 176);
static_assert(offsetof(CUDA_MEMCPY3D_PEER, Depth) == 192);
#endif

namespace rung {
namespace {

template <class Calls>
std::vector<std::string_view> names_of(const Calls& calls) {
  std::vector<std::string_view> names;
  for (const auto& call : calls) names.push_back(call.name);
  return names;
}

TEST(Toolkit, EveryDriverFunctionExists) {
#if defined(RUNG_TOOLKIT_CUDA_STUB)
  const Fd file(open(RUNG_TOOLKIT_CUDA_STUB, O_RDONLY | O_CLOEXEC));
  const auto names = names_of(abi::kCudaCalls);
  // One name at a time: the stub gives many names the same address.
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = find_functions(file.get(), std::span(&names[i], 1));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->found.size(), 1u) << names[i];
  }
#else
  GTEST_SKIP() << "no CUDA toolkit";
#endif
}

TEST(Toolkit, NcclFunctionsExistAndHotOnesCanBeProbedCheaply) {
#if defined(RUNG_TOOLKIT_NCCL)
  const Fd file(open(RUNG_TOOLKIT_NCCL, O_RDONLY | O_CLOEXEC));
  const auto names = names_of(abi::kNcclCalls);
  const auto found = find_functions(file.get(), names);
  ASSERT_TRUE(found);
  if (found->build_id != abi::kAcceptedNccl[0].build_id) {
    GTEST_SKIP() << "another NCCL build: " << found->build_id;
  }
  for (const std::string_view newer : {"ncclCommGrow"}) {
    EXPECT_EQ(found->found.size(), names.size() - 1) << "all but " << newer;
  }
  for (const ElfFunction& function : found->found) {
    const std::string_view name = names[function.wanted];
    const auto point = classify_prologue({function.code.data(), function.code_bytes}, false);
    if (name.starts_with("ncclComm")) continue;
    EXPECT_EQ(point.prologue, PrologueClass::kPush) << name;
  }
#else
  GTEST_SKIP() << "no NCCL in the toolkit";
#endif
}

#if defined(RUNG_TOOLKIT_NCCL) && defined(RUNG_DWARFDUMP)
// Member -> offset of struct ncclComm, and "" -> its size, from the debug information.
std::map<std::string, unsigned long> comm_members() {
  std::map<std::string, unsigned long> out;
  FILE* pipe = popen(RUNG_DWARFDUMP " --name=ncclComm -c -r 1 " RUNG_TOOLKIT_NCCL " 2>&1", "r");
  if (pipe == nullptr) return out;
  std::string member;
  char line[512];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    const char* value = std::strchr(line, '(');
    if (value == nullptr) continue;
    if (std::strstr(line, "DW_AT_byte_size") != nullptr && out.empty()) {
      out[""] = std::strtoul(value + 1, nullptr, 0);
    } else if (std::strstr(line, "DW_AT_name") != nullptr && value[1] == '"') {
      member = std::string(value + 2, std::strcspn(value + 2, "\""));
    } else if (std::strstr(line, "DW_AT_data_member_location") != nullptr) {
      out.emplace(member, std::strtoul(value + 1, nullptr, 0));
    }
  }
  pclose(pipe);
  return out;
}
#endif

TEST(Toolkit, TheLayoutOfNcclCommIsThatOfTheDebugInformation) {
#if defined(RUNG_TOOLKIT_NCCL) && defined(RUNG_DWARFDUMP)
  const Fd file(open(RUNG_TOOLKIT_NCCL, O_RDONLY | O_CLOEXEC));
  const auto library = find_functions(file.get(), std::span<const std::string_view>());
  ASSERT_TRUE(library);
  if (library->build_id != abi::kAcceptedNccl[0].build_id) GTEST_SKIP() << library->build_id;
  auto members = comm_members();
  if (members.size() < 10) GTEST_SKIP() << "the library has no debug information";
  const rung_comm_layout layout = layout_table()[layout_number("2.28.9", true)];
  EXPECT_EQ(members["startMagic"], 0u);
  EXPECT_EQ(members["endMagic"], layout.end_magic);
  EXPECT_EQ(members[""], layout.end_magic + 8);
  EXPECT_EQ(members["commHash"], layout.identity);
  EXPECT_EQ(members["rank"], layout.identity + 8);
  EXPECT_EQ(members["nRanks"], layout.identity + 12);
  EXPECT_EQ(members["initState"], layout.init_state);
  EXPECT_EQ(members["seqNumber"], layout.sequence);
#else
  GTEST_SKIP() << "no NCCL in the toolkit, or no llvm-dwarfdump";
#endif
}

TEST(FunctionTable, LayoutsHaveARowWithAndOneWithoutNumbers) {
  const auto table = layout_table();
  for (const abi::NcclLayout& layout : abi::kNcclLayouts) {
    const auto with = layout_number(layout.version, true);
    const auto without = layout_number(layout.version, false);
    ASSERT_LT(with, table.size());
    ASSERT_LT(without, table.size());
    EXPECT_EQ(table[with].numbered, layout.numbered ? 1u : 0u);
    EXPECT_EQ(table[without].numbered, 0u);
    EXPECT_EQ(table[with].identity, table[without].identity);
  }
  EXPECT_EQ(table[0].end_magic, 0u);
  EXPECT_EQ(layout_number("1.0", true), 0u);
}

}  // namespace
}  // namespace rung
