#include "agent/config.h"

#include <gtest/gtest.h>

namespace rung {
namespace {

Error error_of(const std::string& text) {
  const auto config = parse_config(text, "agent.toml");
  return config ? Error{} : config.error();
}

TEST(Config, EmptyMeansDefaults) {
  const auto config = parse_config("", "agent.toml");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->socket, "/run/rung/agent.sock");
  EXPECT_EQ(config->prometheus_listen, "127.0.0.1:9478");
  EXPECT_DOUBLE_EQ(config->host_budget_percent, 0.5);
}

TEST(Config, ReadsEveryKey) {
  const auto config = parse_config(R"(
socket = "/tmp/s"
state_dir = "/tmp/d"
prometheus_listen = ""
log_level = "debug"
proc_root = "/host"
[host]
enabled = false
budget_percent = 1
ring_kib = 64
accepted_nccl = [{ build_id = "ab01", layout = "2.28.9" }]
[nvml]
enabled = false
library = "/x.so"
deadline_s = 2.5
)",
                                   "agent.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->host_enabled);
  EXPECT_DOUBLE_EQ(config->host_budget_percent, 1.0);
  EXPECT_EQ(config->host_ring_kib, 64u);
  ASSERT_EQ(config->accepted_nccl.size(), 1u);
  EXPECT_EQ(config->accepted_nccl[0].layout, "2.28.9");
  EXPECT_DOUBLE_EQ(config->nvml_deadline_s, 2.5);
}

TEST(Config, UnknownKeyIsNamedWithItsPlaceAndTheKnownOnes) {
  const Error error = error_of("sockte = \"/tmp/s\"\n");
  EXPECT_EQ(error.code, ErrorCode::kBadInput);
  EXPECT_NE(error.message.find("sockte"), std::string::npos);
  EXPECT_NE(error.message.find("agent.toml:1"), std::string::npos);
  EXPECT_NE(error.hint.find("socket"), std::string::npos);
}

TEST(Config, WrongTypesAndRangesAreRefused) {
  EXPECT_EQ(error_of("socket = 3").code, ErrorCode::kBadInput);
  EXPECT_EQ(error_of("[host]\nbudget_percent = 0").code, ErrorCode::kBadInput);
  EXPECT_EQ(error_of("[host]\nbudget_percent = \"1\"").code, ErrorCode::kBadInput);
  EXPECT_EQ(error_of("[nvml]\ndeadline_s = nan").code, ErrorCode::kBadInput);
  EXPECT_EQ(error_of("log_level = \"loud\"").code, ErrorCode::kBadInput);
  EXPECT_EQ(error_of("host = 1").code, ErrorCode::kBadInput);
  EXPECT_EQ(error_of("[host]\nring_kib = 5000").code, ErrorCode::kBadInput);
  EXPECT_EQ(error_of("[host]\naccepted_nccl = [{ build_id = \"XY\", layout = \"2\" }]").code,
            ErrorCode::kBadInput);
  EXPECT_EQ(error_of("socket = \"" + std::string(200, 'a') + "\"").code, ErrorCode::kBadInput);
}

TEST(Config, OddBytesAreRefusedAndDoNotCrash) {
  EXPECT_EQ(error_of("[ =x]").code, ErrorCode::kBadInput);
  EXPECT_EQ(error_of("socket = \"\xEF\xBF\xBF\"").code, ErrorCode::kBadInput);
  EXPECT_EQ(error_of(std::string("\0\0", 2)).code, ErrorCode::kBadInput);
}

TEST(Config, BrokenTomlSaysWhere) {
  const Error error = error_of("a = [1,\nb");
  EXPECT_EQ(error.code, ErrorCode::kBadInput);
  EXPECT_NE(error.message.find("agent.toml:2"), std::string::npos) << error.message;
}

TEST(Config, MissingDefaultFileMeansDefaultsAMissingNamedOneIsAnError) {
  const auto named = load_config("/nowhere/agent.toml");
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace rung
