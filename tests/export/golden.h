// Comparison with a text file in tests/data/export. RUNG_UPDATE_GOLDEN=1 writes it instead.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace rung::testing {

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(RUNG_TEST_DATA) + "/export/" + name;
  if (std::getenv("RUNG_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream wanted;
  wanted << file.rdbuf();
  EXPECT_EQ(text, wanted.str()) << "differs from " << path
                                << "; run with RUNG_UPDATE_GOLDEN=1 and read the difference";
}

}  // namespace rung::testing
