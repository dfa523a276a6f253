#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "base/clock.h"
#include "base/files.h"
#include "base/json_writer.h"
#include "base/log2_histogram.h"
#include "base/strings.h"

namespace rung {
namespace {

struct Folder {
  std::string path;
  Folder() {
    std::string name = testing::TempDir() + "rung.XXXXXX";
    path = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

TEST(Files, ReadsAtMostWhatWasAsked) {
  const Folder folder;
  ASSERT_TRUE(write_file_atomically(folder.path + "/a", "hello"));
  EXPECT_EQ(*read_file(folder.path + "/a", 100), "hello");
  EXPECT_EQ(*read_file(folder.path + "/a", 2), "he");
}

TEST(Files, MissingFileIsNotFoundWithItsName) {
  const auto text = read_file("/nowhere/at/all", 10);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kNotFound);
  EXPECT_NE(text.error().message.find("/nowhere/at/all"), std::string::npos);
}

TEST(Files, FifoDoesNotBlock) {
  const Folder folder;
  const std::string fifo = folder.path + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(read_file(fifo, 10).value_or("none"), "");
}

TEST(Files, AtomicWriteLeavesNoTemporary) {
  const Folder folder;
  ASSERT_TRUE(write_file_atomically(folder.path + "/a", "1"));
  ASSERT_TRUE(write_file_atomically(folder.path + "/a", "2"));
  EXPECT_EQ(list_folder(folder.path, 10)->size(), 1u);
  EXPECT_EQ(*read_file(folder.path + "/a", 10), "2");
}

TEST(ExitCodes, FollowSysexits) {
  EXPECT_EQ(exit_code(ErrorCode::kUsage), 64);
  EXPECT_EQ(exit_code(ErrorCode::kBadInput), 65);
  EXPECT_EQ(exit_code(ErrorCode::kNotFound), 66);
  EXPECT_EQ(exit_code(ErrorCode::kUnavailable), 69);
  EXPECT_EQ(exit_code(ErrorCode::kInternal), 70);
  EXPECT_EQ(exit_code(ErrorCode::kNoPermission), 77);
}

TEST(Clock, FormatsRfc3339WithMilliseconds) {
  EXPECT_EQ(rfc3339(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(rfc3339(1'700'000'000'123'456'789), "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(rfc3339(-1), "1969-12-31T23:59:59.999Z");
}

TEST(JsonWriter, WritesNestedValuesInOrder) {
  JsonWriter json;
  json.begin_object().field("a", 1).field("b", "x\"\n").key("c").begin_array().value(true).null();
  json.begin_object().end_object().end_array().field("d", std::optional<int>()).end_object();
  EXPECT_EQ(json.text(), R"({"a":1,"b":"x\"\n","c":[true,null,{}],"d":null})");
}

TEST(JsonWriter, NotANumberIsNull) {
  JsonWriter json;
  json.begin_array().value(std::numeric_limits<double>::quiet_NaN()).value(0.5).end_array();
  EXPECT_EQ(json.text(), "[null,0.5]");
}

TEST(Strings, InvalidUtf8IsReplaced) {
  EXPECT_EQ(json_quoted("a\xff\xc3\xa4"), "\"a\\ufffd\xc3\xa4\"");
  EXPECT_EQ(json_quoted(std::string_view("\xe2\x82", 2)), "\"\\ufffd\\ufffd\"");
  EXPECT_EQ(printable("a\x1b[31m\xff"), "a?[31m?");
  EXPECT_EQ(printable("abcdef", 3), "abc");
}

TEST(Strings, ParsesWholeNumbersOnly) {
  EXPECT_EQ(parse_number<int>("12"), 12);
  EXPECT_EQ(parse_number<std::uint64_t>("ff", 16), 255u);
  EXPECT_FALSE(parse_number<int>("12x"));
  EXPECT_FALSE(parse_number<int>(""));
  EXPECT_FALSE(parse_number<std::uint8_t>("256"));
}

TEST(Log2Histogram, QuantileIsAnUpperBound) {
  Log2Histogram histogram;
  EXPECT_FALSE(histogram.quantile_upper_bound(0.5));
  for (int i = 0; i < 99; ++i) histogram.add(100);
  histogram.add(1'000'000);
  EXPECT_EQ(histogram.quantile_upper_bound(0.5), 128);
  EXPECT_EQ(histogram.quantile_upper_bound(0.999), 1 << 20);
}

}  // namespace
}  // namespace rung
