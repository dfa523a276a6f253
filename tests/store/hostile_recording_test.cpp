#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "random_observations.h"
#include "store/recording.h"
#include "temp_folder.h"

namespace rung {
namespace {

using rung::testing::Random;
using rung::testing::TempFolder;
using ::testing::HasSubstr;

// A small finished recording with every kind of observation.
void write_sample(const std::string& path) {
  auto writer = RecordingWriter::create(path, {});
  ASSERT_TRUE(writer) << writer.error().message;
  Random random(7);
  for (int tick = 0; tick < 6; ++tick) {
    for (int i = 0; i < 30; ++i) {
      Observation observation;
      random.fill(observation);
      ASSERT_TRUE((*writer)->add(observation));
    }
    Verdict verdict;
    verdict.kind = "stall.no_progress";
    verdict.ranks = {1, 2, 3};
    ASSERT_TRUE((*writer)->end_tick(unix_ns(tick), {verdict}));
  }
  ASSERT_TRUE((*writer)->finish());
}

// The first error of opening and reading it all, or nothing.
std::optional<Error> first_error(const std::string& path) {
  auto reader = RecordingReader::open(path);
  if (!reader) return reader.error();
  RecordedTick tick;
  while (true) {
    const auto more = (*reader)->next_tick(tick);
    if (!more) {
      const auto after = (*reader)->next_tick(tick);
      EXPECT_TRUE(after && !*after) << "a reader that failed stays at its end";
      return more.error();
    }
    if (!*more) return std::nullopt;
  }
}

void expect_refused(const std::string& path, const std::string& why) {
  const auto error = first_error(path);
  ASSERT_TRUE(error) << "nothing refused; expected: " << why;
  EXPECT_EQ(error->code, ErrorCode::kBadInput) << error->message;
  EXPECT_THAT(error->message, HasSubstr(why));
  EXPECT_EQ(error->message.find('\n'), std::string::npos);
  EXPECT_FALSE(error->hint.empty());
}

class HostileRecording : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_ / "a.rung";
    write_sample(path_);
    ASSERT_FALSE(first_error(path_));
  }

  // Changes the recording as an attacker with SQLite could.
  void change(const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    sqlite3_close(db);
  }
  std::string bytes() {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void replace(const std::string& content) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
  }

  TempFolder folder_;
  std::string path_;
};

TEST_F(HostileRecording, WhatIsNoRegularFileIsRefused) {
  std::filesystem::create_symlink(path_, folder_ / "link");
  expect_refused(folder_ / "link", "is not a regular file");
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  expect_refused(folder_ / "fifo", "is not a regular file");
  std::filesystem::create_directory(folder_ / "folder");
  expect_refused(folder_ / "folder", "is not a regular file");
  expect_refused("/dev/null", "is not a regular file");
}

TEST_F(HostileRecording, AMissingFileIsNotFound) {
  const auto error = first_error(folder_ / "none");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::kNotFound);
}

TEST_F(HostileRecording, AFolderThatIsALinkIsFine) {
  std::filesystem::create_directory(folder_ / "real");
  std::filesystem::create_symlink(folder_ / "real", folder_ / "linked");
  write_sample(folder_ / "linked/x #1?%.rung");
  EXPECT_FALSE(first_error(folder_ / "linked/x #1?%.rung"));
}

TEST_F(HostileRecording, ForeignFilesAreRefused) {
  replace("");
  expect_refused(path_, "is not a Rung recording");
  replace("{\"traceEvents\": []}");
  expect_refused(path_, "is not a Rung recording");
  std::filesystem::remove(path_);
  change("CREATE TABLE moz_places(id INTEGER PRIMARY KEY)");
  expect_refused(path_, "is not a Rung recording");
  change("PRAGMA application_id=1381322311");  // ours on a foreign file
  expect_refused(path_, "is not a Rung recording");
}

TEST_F(HostileRecording, AnotherVersionIsNamed) {
  change("UPDATE meta SET value='2' WHERE key='version'");
  expect_refused(path_, "it has format version 2, this program reads version 1");
  change("UPDATE meta SET value='rung.bundle' WHERE key='format'");
  expect_refused(path_, "is not a Rung recording");
}

TEST_F(HostileRecording, NothingMayBeAddedToTheSchema) {
  const std::string original = bytes();
  for (const char* sql : {"CREATE VIEW v AS SELECT 1", "CREATE INDEX i ON tick(unix_ns)",
                          "CREATE TABLE extra(x)", "ALTER TABLE tick ADD COLUMN more",
                          "CREATE TRIGGER t AFTER INSERT ON tick BEGIN DELETE FROM tick; END",
                          "DROP TABLE verdict"}) {
    replace(original);
    change(sql);
    expect_refused(path_, "its tables are not those of version 1");
  }
}

TEST_F(HostileRecording, AnEndlessViewDoesNotRun) {
  change(
      "DROP TABLE tick; CREATE VIEW tick AS WITH RECURSIVE r(x) AS "
      "(SELECT 1 UNION ALL SELECT x FROM r) SELECT x AS id, x AS unix_ns FROM r");
  expect_refused(path_, "cannot read recording");
}

TEST_F(HostileRecording, InvalidValuesAreNamed) {
  const struct {
    const char* sql;
    const char* why;
  } cases[] = {
      {"UPDATE process_sample SET state=6", "column state of table process_sample"},
      {"UPDATE process_sample SET state=-1", "column state of table process_sample"},
      {"UPDATE process_sample SET threads=1<<31", "column threads of table process_sample"},
      {"UPDATE process_sample SET cpu_ns='x'", "column cpu_ns of table process_sample"},
      {"UPDATE process_sample SET process=9999", "table process lacks an entry"},
      {"UPDATE thread_call SET thread_state='RR'", "column thread_state of table thread_call"},
      {"UPDATE device_sample SET power_watts=x'00'", "column power_watts of table device_sample"},
      {"UPDATE comm_event SET what=5", "column what of table comm_event"},
      {"UPDATE communicator SET identified_by=4", "column identified_by of table communicator"},
      {"UPDATE coverage SET reason=1000", "column reason of table coverage"},
      {"UPDATE health_event SET what=hex(zeroblob(3000))", "column what of table health_event"},
      {"UPDATE name SET text=hex(zeroblob(3000))", "column text of table name"},
      {"UPDATE signature SET op=11", "column op of table signature"},
      {"UPDATE process_identity SET simulated=2", "column simulated of table process_identity"},
      {"UPDATE verdict SET ranks='3-1'", "column ranks of table verdict"},
      {"UPDATE verdict SET ranks='0-131072'", "column ranks of table verdict"},
      {"UPDATE verdict SET ranks='1,1'", "column ranks of table verdict"},
      {"UPDATE verdict SET ranks='-4'", "column ranks of table verdict"},
      {"UPDATE verdict SET severity=3", "column severity of table verdict"},
      {"UPDATE collective_batch SET entries=1000000000000", "column entries of table"},
      {"UPDATE collective_batch SET entries=-1", "column entries of table"},
      {"UPDATE collective_batch SET entries=65536", "malformed batch"},
      {"UPDATE collective_batch SET packed=x'789c'", "malformed batch"},
      {"UPDATE collective_batch SET packed='text'", "column packed of table collective_batch"},
      {"DELETE FROM signature", "table signature lacks an entry"},
      {"UPDATE meta SET value='soon' WHERE key='created_unix_ns'", "meta is invalid"},
      {"UPDATE meta SET value='yes' WHERE key='simulated'", "meta is invalid"},
      {"DELETE FROM meta WHERE key='host'", "meta value host is missing"},
      {"DELETE FROM health_event WHERE seq=(SELECT min(seq) FROM health_event)",
       "observations are missing"},
      {"INSERT INTO process_exit SELECT seq,0,0,1,0,0,0,0 FROM health_event",
       "observations are not in order"},
      {"INSERT INTO device_process SELECT seq,0,1 FROM health_event", "belong to nothing"},
      {"UPDATE library SET ord=ord+100", "belong to nothing"},
      {"DELETE FROM verdict WHERE id=2", "verdicts are missing"},
      {"UPDATE tick SET observations=-1", "table tick is not consistent"},
      {"UPDATE tick SET observations=9223372036854775807", "table tick is not consistent"},
      {"UPDATE tick SET first_seq=-9223372036854775808", "table tick is not consistent"},
      {"UPDATE tick SET verdicts=4097", "table tick is not consistent"},
      {"DELETE FROM tick WHERE id=2", "table tick is not consistent"},
      {"UPDATE tick SET unix_ns='now'", "table tick is invalid"},
  };
  const std::string original = bytes();
  for (const auto& [sql, why] : cases) {
    SCOPED_TRACE(sql);
    replace(original);
    change(sql);
    expect_refused(path_, why);
  }
}

TEST_F(HostileRecording, TruncatedFilesNeverCrash) {
  const std::string original = bytes();
  int refused = 0;
  constexpr int kCuts = 60;
  for (int i = 0; i < kCuts; ++i) {
    replace(original.substr(0, original.size() * static_cast<std::size_t>(i) / kCuts));
    const auto error = first_error(path_);
    if (!error) continue;
    ++refused;
    EXPECT_EQ(error->code, ErrorCode::kBadInput) << error->message;
  }
  EXPECT_GT(refused, kCuts / 2);
}

TEST_F(HostileRecording, FlippedBytesNeverCrash) {
  const std::string original = bytes();
  Random random(99);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = original;
    for (int flips = 0; flips < 8; ++flips) {
      damaged[random.below(damaged.size())] = static_cast<char>(random.below(256));
    }
    replace(damaged);
    const auto error = first_error(path_);
    if (!error) continue;
    EXPECT_EQ(error->code, ErrorCode::kBadInput) << error->message;
  }
}

TEST_F(HostileRecording, AJournalBesideItIsNotTouched) {
  std::ofstream(path_ + "-journal") << "not ours";
  EXPECT_FALSE(first_error(path_));
  EXPECT_TRUE(std::filesystem::exists(path_ + "-journal"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "-shm"));
}

TEST_F(HostileRecording, AWalThatIsAPipeIsRefused) {
  change("PRAGMA journal_mode=WAL");  // the header now asks for a -wal
  ASSERT_EQ(::mkfifo((path_ + "-wal").c_str(), 0600), 0);
  expect_refused(path_, "-wal is not a regular file");
}

TEST_F(HostileRecording, AWalOfNonsenseIsIgnored) {
  change("PRAGMA journal_mode=WAL");
  std::ofstream(path_ + "-wal") << std::string(5000, 'x');
  EXPECT_FALSE(first_error(path_));
}

}  // namespace
}  // namespace rung
