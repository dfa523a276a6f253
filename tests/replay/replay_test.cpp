// Recordings of real and simulated jobs, replayed: the verdicts that the live agent gave come
// again.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/json.h"

namespace rung {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(RUNG_TEST_DATA) / "recordings";

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".rung") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string replay(const std::filesystem::path& file) {
  const std::string command = std::string(RUNG_BINARY) + " replay --json '" + file.string() + "'";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  char chunk[4096];
  std::size_t got = 0;
  while ((got = std::fread(chunk, 1, sizeof chunk, pipe)) > 0) text.append(chunk, got);
  ::pclose(pipe);
  return text;
}

// "kind ranks" of every verdict that ever stood, ranks as "0,5" or "-".
std::vector<std::string> claims(const std::string& json) {
  return test::json_rows(
      json,
      "SELECT json_extract(value, '$.kind') || ' ' || coalesce((SELECT group_concat(r.value) FROM "
      "json_each(v.value, '$.ranks') r), '-') FROM json_each(?1, '$.verdicts') v");
}

class Recordings : public testing::TestWithParam<std::string> {};

TEST_P(Recordings, GiveTheirVerdictsAgain) {
  const std::string json = replay(kFolder / (GetParam() + ".rung"));
  ASSERT_FALSE(json.empty());
  const std::vector<std::string> found = claims(json);
  std::ifstream expect(kFolder / (GetParam() + ".expect"));
  ASSERT_TRUE(expect) << "every recording has an .expect file";
  int checks = 0;
  for (std::string line; std::getline(expect, line);) {
    std::istringstream words(line);
    std::string verb;
    std::string kind;
    std::string ranks = "-";
    words >> verb >> kind >> ranks;
    if (verb == "must") {
      ++checks;
      EXPECT_TRUE(std::find(found.begin(), found.end(), kind + " " + ranks) != found.end())
          << line << "\ngot " << testing::PrintToString(found);
    } else if (verb == "never") {
      ++checks;
      for (const std::string& claim : found) {
        EXPECT_FALSE(claim.starts_with(kind + ".") || claim.starts_with(kind + " ")) << claim;
      }
    } else {
      EXPECT_TRUE(verb.empty() || verb == "#") << "unknown line: " << line;
    }
  }
  EXPECT_GT(checks, 0);
  EXPECT_EQ(test::json_at(json, "$.differing_ticks"), "0") << test::json_at(json, "$.differences");
  EXPECT_LE(std::filesystem::file_size(kFolder / (GetParam() + ".rung")), 2u << 20);
}

INSTANTIATE_TEST_SUITE_P(All, Recordings, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Recordings);

}  // namespace
}  // namespace rung
