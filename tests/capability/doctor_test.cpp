#include "capability/doctor.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "capability/nvml_search.h"

namespace rung {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DoctorTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rung_doctor_XXXXXX";
    root_ = ::mkdtemp(name);
    request_.root = root_;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    std::ofstream(root_ + "/" + file, std::ios::binary) << text;
  }
  void grant(const std::string& caps) {
    write("proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t" + caps + "\n");
  }

  static const RungReport& rung_of(const DoctorReport& report, Rung rung) {
    const auto found = std::find_if(report.rungs.begin(), report.rungs.end(),
                                    [&](const auto& one) { return one.rung == rung; });
    return *found;
  }
  RungReport state() {
    const auto report = examine(request_);
    return report ? rung_of(*report, Rung::kState) : RungReport{};
  }

  std::string root_;
  DoctorRequest request_;
};

constexpr const char* kAll = "000001ffffffffff";
constexpr const char* kNone = "0000000000000000";

TEST_F(DoctorTest, EveryRungOnceAndInOrder) {
  request_.root = "/";
  const auto report = examine(request_);
  ASSERT_TRUE(report);
  std::vector<Rung> rungs;
  for (const RungReport& rung : report->rungs) rungs.push_back(rung.rung);
  EXPECT_EQ(rungs, (std::vector<Rung>{Rung::kFleet, Rung::kHost, Rung::kState, Rung::kRas,
                                      Rung::kNccl, Rung::kDevice, Rung::kCounters}));
  EXPECT_TRUE(rung_of(*report, Rung::kFleet).possible);
  for (const Rung rung : {Rung::kRas, Rung::kNccl, Rung::kDevice, Rung::kCounters}) {
    EXPECT_FALSE(rung_of(*report, rung).possible);
    EXPECT_EQ(rung_of(*report, rung).message, "not part of this build");
  }
}

TEST_F(DoctorTest, PtraceScopeThreeForbidsTheStateRungEvenToRoot) {
  grant(kAll);
  write("proc/sys/kernel/yama/ptrace_scope", "3\n");
  EXPECT_FALSE(state().possible);
  EXPECT_THAT(state().message, HasSubstr("ptrace_scope is 3"));
  write("proc/sys/kernel/yama/ptrace_scope", "2\n");
  EXPECT_TRUE(state().possible);
}

TEST_F(DoctorTest, WithoutCapSysPtraceTheScopeDecides) {
  grant(kNone);
  write("proc/sys/kernel/yama/ptrace_scope", "1\n");
  EXPECT_FALSE(state().possible);
  EXPECT_EQ(state().reason, Reason::kNoPermission);
  EXPECT_THAT(state().hint, HasSubstr("CAP_SYS_PTRACE"));
  write("proc/sys/kernel/yama/ptrace_scope", "0\n");
  EXPECT_TRUE(state().possible);
  EXPECT_THAT(state().message, HasSubstr("same user"));
}

TEST_F(DoctorTest, CapabilitiesOneByOne) {
  grant("0000008000080000");  // CAP_BPF and CAP_SYS_PTRACE
  const auto report = examine(request_);
  ASSERT_TRUE(report);
  for (const CapabilityReport& capability : report->capabilities) {
    const bool held = capability.name == "CAP_BPF" || capability.name == "CAP_SYS_PTRACE";
    EXPECT_EQ(capability.held, held) << capability.name;
  }
  EXPECT_EQ(report->capabilities.size(), 5u);
  const RungReport host = rung_of(*report, Rung::kHost);
  EXPECT_FALSE(host.possible);
  EXPECT_EQ(host.reason, Reason::kNoPermission);
  EXPECT_THAT(host.hint, HasSubstr("CAP_PERFMON"));
}

TEST_F(DoctorTest, UnreadableCapabilitiesAreUnknownNotMissing) {
  const auto report = examine(request_);
  ASSERT_TRUE(report);
  for (const CapabilityReport& capability : report->capabilities) EXPECT_FALSE(capability.held);
  EXPECT_THAT(doctor_json(*report), HasSubstr("\"held\":null"));
  EXPECT_FALSE(report->ptrace_scope);
  EXPECT_FALSE(rung_of(*report, Rung::kFleet).possible);
}

TEST_F(DoctorTest, FindsNvmlByNameAndInTheLoaderCache) {
  EXPECT_FALSE(find_nvml(root_, ""));
  write("opt/nv/libnvidia-ml.so.1", "");
  EXPECT_EQ(find_nvml(root_, "/opt/nv/libnvidia-ml.so.1"), "/opt/nv/libnvidia-ml.so.1");
  EXPECT_FALSE(find_nvml(root_, "/opt/nv/other.so"));
  using namespace std::string_literals;
  write("etc/ld.so.cache",
        "glibc-ld.so.cache1.1\0\x01\0libnvidia-ml.so.1\0/opt/nv/libnvidia-ml.so.1\0x"s);
  EXPECT_EQ(find_nvml(root_, ""), "/opt/nv/libnvidia-ml.so.1");
  fs::remove(root_ + "/opt/nv/libnvidia-ml.so.1");
  EXPECT_FALSE(find_nvml(root_, ""));
  write("usr/lib64/libnvidia-ml.so.1", "");
  EXPECT_EQ(find_nvml(root_, ""), "/usr/lib64/libnvidia-ml.so.1");
}

TEST_F(DoctorTest, CacheTextThatIsCutOrStrange) {
  EXPECT_EQ(path_in_loader_cache("", "a.so"), "");
  EXPECT_EQ(path_in_loader_cache("/a.so", "a.so"), "");  // no end
  EXPECT_EQ(path_in_loader_cache(std::string("/a.so\0", 6), "a.so"), "/a.so");
}

TEST_F(DoctorTest, FleetWithoutNvmlIsProcessStateOnly) {
  write("proc/1/stat", "");
  auto report = examine(request_);
  ASSERT_TRUE(report);
  EXPECT_TRUE(rung_of(*report, Rung::kFleet).possible);
  EXPECT_EQ(rung_of(*report, Rung::kFleet).reason, Reason::kNoDevice);
  write("usr/lib64/libnvidia-ml.so.1", "");
  write("proc/driver/nvidia/version", "NVRM version\n");
  report = examine(request_);
  EXPECT_EQ(rung_of(*report, Rung::kFleet).reason, Reason::kNone);
}

// This process stands for a rank: it maps a look-alike under the name of NCCL.
class DoctorOfAProcess : public DoctorTest {
 protected:
  void SetUp() override {
    DoctorTest::SetUp();
    request_.root = "/";
    request_.pid = ::getpid();
    const std::string path = root_ + "/libnccl.so.2";
    fs::copy_file(RUNG_LOOKALIKE, path);
    library_ = ::dlopen(path.c_str(), RTLD_NOW);
    ASSERT_NE(library_, nullptr) << ::dlerror();
  }
  void TearDown() override {
    ::dlclose(library_);
    DoctorTest::TearDown();
  }
  void* library_ = nullptr;
};

TEST_F(DoctorOfAProcess, AnUnknownBuildOfNcclIsNotAccepted) {
  const auto report = examine(request_);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->libraries.size(), 1u);
  const LibraryReport& nccl = report->libraries[0];
  EXPECT_EQ(nccl.fingerprint.version, "2.28.9");
  EXPECT_EQ(nccl.accepted, false);
  EXPECT_TRUE(report->simulated);
  const RungReport state = rung_of(*report, Rung::kState);
  EXPECT_FALSE(state.possible);
  EXPECT_THAT(doctor_text(*report, false), HasSubstr("not on the accepted list"));
}

TEST_F(DoctorOfAProcess, AnAcceptedBuildIs) {
  request_.accepted_nccl = {"00112233445566778899aabbccddeeff00112233"};
  const auto report = examine(request_);
  ASSERT_TRUE(report);
  ASSERT_EQ(report->libraries.size(), 1u);
  EXPECT_EQ(report->libraries[0].accepted, true);
  EXPECT_NE(rung_of(*report, Rung::kState).reason, Reason::kUnknownBuild);
  EXPECT_THAT(doctor_json(*report),
              HasSubstr("\"build_id\":\"00112233445566778899aabbccddeeff00112233\","
                        "\"version\":\"2.28.9\",\"accepted\":true"));
}

TEST_F(DoctorTest, AProcessThatIsNotThere) {
  request_.root = "/";
  request_.pid = 4194303;
  const auto report = examine(request_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(report.error().message, HasSubstr("4194303"));
  EXPECT_FALSE(report.error().hint.empty());
}

DoctorReport small_report() {
  DoctorReport report;
  report.kernel = "6.1";
  RungReport fine;
  fine.possible = true;
  RungReport poor;
  poor.rung = Rung::kHost;
  poor.reason = Reason::kNoPermission;
  poor.message = "CAP_BPF is missing";
  poor.hint = "run as root";
  report.rungs = {fine, poor};
  report.capabilities = {{"CAP_BPF", false, "why"}};
  return report;
}

TEST(DoctorRendering, Json) {
  const std::string json = doctor_json(small_report());
  EXPECT_TRUE(
      json.starts_with("{\"schema\":\"rung.doctor/1\",\"rungs\":[{\"rung\":\"fleet\","
                       "\"possible\":true,\"reason\":null,"))
      << json;
  EXPECT_THAT(json, HasSubstr("{\"rung\":\"host\",\"possible\":false,\"reason\":\"no_permission\","
                              "\"message\":\"CAP_BPF is missing\",\"hint\":\"run as root\"}"));
  EXPECT_THAT(json, HasSubstr("\"libraries\":[]"));
  EXPECT_THAT(json, HasSubstr("\"nvml\":null"));
}

TEST(DoctorRendering, TextWithAndWithoutColour) {
  const std::string plain = doctor_text(small_report(), false);
  EXPECT_THAT(plain, HasSubstr("  fleet     yes\n"));
  EXPECT_THAT(plain, HasSubstr("  host      no   CAP_BPF is missing\n"));
  EXPECT_THAT(plain, HasSubstr("hint: run as root\n"));
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(doctor_text(small_report(), true).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace rung
