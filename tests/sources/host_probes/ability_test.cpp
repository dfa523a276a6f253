#include "sources/host_probes/ability.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/strings.h"

namespace rung {
namespace {

const HostProbeAbility::Check* find(const HostProbeAbility& ability, const std::string& name) {
  const auto found = std::find_if(ability.checks.begin(), ability.checks.end(),
                                  [&](const auto& check) { return check.name == name; });
  return found == ability.checks.end() ? nullptr : &*found;
}

class FakeRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/ability" + std::to_string(getpid());
    std::filesystem::create_directories(root_ + "/proc/self");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void set_capabilities(const std::string& hex) {
    std::ofstream(root_ + "/proc/self/status") << "Name:\tx\nCapEff:\t" << hex << "\n";
  }
  std::string root_;
};

TEST_F(FakeRoot, AMissingCapabilityIsNamedFirst) {
  set_capabilities("0000000000000000");
  const HostProbeAbility ability = probe_ability(root_);
  EXPECT_FALSE(ability.possible);
  EXPECT_EQ(ability.reason, Reason::kNoPermission);
  EXPECT_NE(ability.message.find("CAP_BPF"), std::string::npos);
  EXPECT_FALSE(ability.hint.empty());
  for (const char* name : {"CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH",
                           "CAP_CHECKPOINT_RESTORE", "bpf_ring_buffer", "btf", "uprobe_multi"}) {
    EXPECT_NE(find(ability, name), nullptr) << name;
  }
}

TEST_F(FakeRoot, AdminCoversBpfButNotPtrace) {
  set_capabilities("0000000000200000");
  const HostProbeAbility ability = probe_ability(root_);
  EXPECT_TRUE(find(ability, "CAP_BPF")->ok);
  EXPECT_FALSE(find(ability, "CAP_SYS_PTRACE")->ok);
}

TEST_F(FakeRoot, AKernelWithoutBtfIsNoKernelSupport) {
  set_capabilities("000001ffffffffff");
  const HostProbeAbility ability = probe_ability(root_);
  EXPECT_FALSE(find(ability, "btf")->ok);
  EXPECT_FALSE(ability.possible);
  if (!find(ability, "bpf_ring_buffer")->ok) GTEST_SKIP() << "bpf(2) is refused here";
  EXPECT_EQ(ability.reason, Reason::kNoKernelSupport);
}

}  // namespace
}  // namespace rung
