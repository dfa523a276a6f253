#include "store/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "random_observations.h"
#include "store/schema.h"
#include "temp_folder.h"

namespace rung {
namespace {

using rung::testing::Random;
using rung::testing::same;
using rung::testing::TempFolder;

RecordingMeta some_meta() {
  RecordingMeta meta;
  meta.created = unix_ns(1'796'000'000'000'000'000);
  meta.host = "node-7";
  meta.rung_version = "0.1.0";
  meta.job = "slurm:42.0";
  return meta;
}

std::unique_ptr<RecordingWriter> make(const std::string& path) {
  auto writer = RecordingWriter::create(path, some_meta());
  EXPECT_TRUE(writer) << (writer ? "" : writer.error().message);
  return writer ? std::move(*writer) : nullptr;
}

std::vector<RecordedTick> read_all(const std::string& path) {
  std::vector<RecordedTick> ticks;
  auto reader = RecordingReader::open(path);
  EXPECT_TRUE(reader) << (reader ? "" : reader.error().message);
  if (!reader) return ticks;
  while (true) {
    RecordedTick tick;
    const auto more = (*reader)->next_tick(tick);
    EXPECT_TRUE(more) << (more ? "" : more.error().message);
    if (!more || !*more) return ticks;
    ticks.push_back(std::move(tick));
  }
}

Observation health(double value, std::string what = "") {
  return {{}, HealthEvent{HealthEvent::Kind::kTickLate, value, std::move(what)}};
}

Verdict some_verdict(Random& random) {
  Verdict verdict;
  verdict.kind = "hang.rank_not_joined";
  verdict.severity = static_cast<Severity>(random.below(3));
  verdict.confidence = static_cast<Confidence>(random.below(3));
  random.fill(verdict.job);
  random.fill(verdict.attempt);
  verdict.ranks = {0, 1, 2, 5};
  for (int i = 0; i < 20; ++i) {
    verdict.waiting.insert(RankId{static_cast<std::int32_t>(random.below(300))});
  }
  if (random.below(2) == 0) verdict.unobserved = RankSet::first(100000);
  if (random.below(2) == 0) verdict.since = job_ns(static_cast<std::int64_t>(random.below(1000)));
  verdict.detected = job_ns(static_cast<std::int64_t>(random.below(1U << 30)));
  random.fill(verdict.summary);
  return verdict;
}

void expect_same(const Verdict& a, const Verdict& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.severity, b.severity);
  EXPECT_EQ(a.confidence, b.confidence);
  EXPECT_EQ(a.job, b.job);
  EXPECT_EQ(a.attempt, b.attempt);
  EXPECT_EQ(a.ranks, b.ranks);
  EXPECT_EQ(a.waiting, b.waiting);
  EXPECT_EQ(a.unobserved, b.unobserved);
  EXPECT_EQ(a.since, b.since);
  EXPECT_EQ(a.detected, b.detected);
  EXPECT_EQ(a.summary, b.summary);
}

TEST(Recording, RandomObservationsComeBackExactlyAndInOrder) {
  const TempFolder folder;
  Random random(20261129);
  std::vector<RecordedTick> written(60);
  const auto writer = make(folder / "a.rung");
  for (RecordedTick& tick : written) {
    random.fill(tick.now);
    tick.observations.resize(random.below(40));
    for (Observation& observation : tick.observations) {
      random.fill(observation);
      ASSERT_TRUE(writer->add(observation));
    }
    for (std::uint64_t i = random.below(3); i > 0; --i) {
      tick.verdicts.push_back(some_verdict(random));
    }
    ASSERT_TRUE(writer->end_tick(tick.now, tick.verdicts));
  }
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(writer->dropped(), 0U);

  const std::vector<RecordedTick> read = read_all(folder / "a.rung");
  ASSERT_EQ(read.size(), written.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].now, written[i].now);
    EXPECT_EQ(read[i].dropped, 0U);
    EXPECT_TRUE(same(read[i].observations, written[i].observations)) << "tick " << i;
    ASSERT_EQ(read[i].verdicts.size(), written[i].verdicts.size());
    for (std::size_t j = 0; j < read[i].verdicts.size(); ++j) {
      expect_same(read[i].verdicts[j], written[i].verdicts[j]);
    }
  }
}

TEST(Recording, MetaComesBack) {
  const TempFolder folder;
  const auto writer = make(folder / "a.rung");
  ASSERT_TRUE(writer->finish());
  const auto reader = RecordingReader::open(folder / "a.rung");
  ASSERT_TRUE(reader);
  const RecordingMeta& meta = (*reader)->meta();
  EXPECT_EQ(meta.created, some_meta().created);
  EXPECT_EQ(meta.host, "node-7");
  EXPECT_EQ(meta.rung_version, "0.1.0");
  EXPECT_EQ(meta.job, "slurm:42.0");
  EXPECT_FALSE(meta.simulated);
  EXPECT_TRUE(meta.finished.has_value());
  EXPECT_FALSE(std::filesystem::exists(folder / "a.rung-wal"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.rung-journal"));
}

TEST(Recording, ASimulatedObservationMarksTheWholeFile) {
  const TempFolder folder;
  const auto writer = make(folder / "a.rung");
  ProcessIdentity identity;
  identity.simulated = true;
  ASSERT_TRUE(writer->add({{}, identity}));
  ASSERT_TRUE(writer->end_tick(unix_ns(1), {}));
  ASSERT_TRUE(writer->finish());
  const auto reader = RecordingReader::open(folder / "a.rung");
  ASSERT_TRUE(reader);
  EXPECT_TRUE((*reader)->meta().simulated);
}

TEST(Recording, NotANumberStaysNotANumber) {
  const TempFolder folder;
  const auto writer = make(folder / "a.rung");
  ASSERT_TRUE(writer->add(health(std::nan(""))));
  ASSERT_TRUE(writer->end_tick(unix_ns(1), {}));
  ASSERT_TRUE(writer->finish());
  const auto ticks = read_all(folder / "a.rung");
  ASSERT_EQ(ticks.size(), 1U);
  EXPECT_TRUE(std::isnan(std::get<HealthEvent>(ticks[0].observations.at(0).what).value));
}

TEST(Recording, RefusesToOverwrite) {
  const TempFolder folder;
  std::ofstream(folder / "a.rung") << "precious";
  const auto writer = RecordingWriter::create(folder / "a.rung", some_meta());
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, ErrorCode::kUsage);
  std::ifstream file(folder / "a.rung");
  std::string text;
  file >> text;
  EXPECT_EQ(text, "precious");

  std::ofstream(folder / "b.rung-wal") << "left over";
  const auto beside = RecordingWriter::create(folder / "b.rung", some_meta());
  ASSERT_FALSE(beside);
  EXPECT_EQ(beside.error().code, ErrorCode::kUsage);

  std::filesystem::create_symlink("nowhere", folder / "c.rung");
  EXPECT_FALSE(RecordingWriter::create(folder / "c.rung", some_meta()));
  const auto missing = RecordingWriter::create(folder / "no/d.rung", some_meta());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(Recording, IsLockedWhileItIsWritten) {
  const TempFolder folder;
  const auto writer = make(folder / "a.rung");
  const auto reader = RecordingReader::open(folder / "a.rung");
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, ErrorCode::kUnavailable);
}

TEST(Recording, WhatWasCommittedSurvivesAKill) {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    auto writer = RecordingWriter::create(folder / "a.rung", some_meta());
    for (int tick = 0; tick < 13 && writer; ++tick) {
      for (int i = 0; i <= tick; ++i) static_cast<void>((*writer)->add(health(tick)));
      static_cast<void>((*writer)->end_tick(unix_ns(tick), {}));
    }
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));

  const auto ticks = read_all(folder / "a.rung");
  ASSERT_EQ(ticks.size(), 10U);  // two commits of five ticks
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    EXPECT_EQ(ticks[i].now, unix_ns(static_cast<std::int64_t>(i)));
    EXPECT_EQ(ticks[i].observations.size(), i + 1);
  }
  const auto reader = RecordingReader::open(folder / "a.rung");
  ASSERT_TRUE(reader);
  EXPECT_FALSE((*reader)->meta().finished.has_value());

  std::filesystem::copy_file(folder / "a.rung", folder / "alone.rung");
  const auto alone = RecordingReader::open(folder / "alone.rung");
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, ErrorCode::kBadInput);
  EXPECT_NE(alone.error().hint.find("-wal"), std::string::npos) << alone.error().hint;
}

TEST(Recording, AFullDiskIsAnErrorAndTheFileStaysReadable) {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{400'000, 400'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto writer = RecordingWriter::create(folder / "a.rung", some_meta());
    if (!writer) ::_exit(1);
    for (int tick = 0; tick < 10'000; ++tick) {
      const std::string filler(1000, static_cast<char>('a' + tick % 26));
      auto done = (*writer)->add(health(tick, filler));
      if (done) done = (*writer)->end_tick(unix_ns(tick), {});
      if (done) continue;
      const auto again = (*writer)->add(health(1));
      const bool as_documented = done.error().code == ErrorCode::kUnavailable &&
                                 !done.error().hint.empty() && !again &&
                                 again.error().message == done.error().message;
      ::_exit(as_documented ? 0 : 2);
    }
    ::_exit(3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const auto ticks = read_all(folder / "a.rung");
  EXPECT_GE(ticks.size(), 50U);
  EXPECT_EQ(ticks.size() % kRecordingTicksPerCommit, 0U);
}

TEST(Recording, WithoutFinishTheDestructorKeepsEndedTicks) {
  const TempFolder folder;
  {
    const auto writer = make(folder / "a.rung");
    ASSERT_TRUE(writer->add(health(1)));
    ASSERT_TRUE(writer->end_tick(unix_ns(1), {}));
    ASSERT_TRUE(writer->add(health(2)));
  }
  EXPECT_EQ(read_all(folder / "a.rung").size(), 1U);
}

TEST(Recording, ATickThatWasNotEndedIsDiscarded) {
  const TempFolder folder;
  const auto writer = make(folder / "a.rung");
  ASSERT_TRUE(writer->add(health(1)));
  ASSERT_TRUE(writer->end_tick(unix_ns(1), {}));
  ASSERT_TRUE(writer->add(health(2)));
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(read_all(folder / "a.rung").size(), 1U);
  EXPECT_FALSE(writer->add(health(3)));
}

TEST(Recording, OverlongTextsAreDroppedAndCounted) {
  const TempFolder folder;
  const auto writer = make(folder / "a.rung");
  ASSERT_TRUE(writer->add(health(1, std::string(kRecordingTextBytes, 'x'))));
  ASSERT_TRUE(writer->add(health(2, std::string(kRecordingTextBytes + 1, 'x'))));
  Verdict verdict;
  verdict.summary = std::string(kRecordingTextBytes + 1, 'x');
  ASSERT_TRUE(writer->end_tick(unix_ns(1), {verdict}));
  ASSERT_TRUE(writer->end_tick(unix_ns(2), std::vector<Verdict>(kRecordingTickVerdicts + 3)));
  EXPECT_EQ(writer->dropped(), 5U);
  ASSERT_TRUE(writer->finish());
  const auto ticks = read_all(folder / "a.rung");
  ASSERT_EQ(ticks.size(), 2U);
  EXPECT_EQ(ticks[0].observations.size(), 1U);
  EXPECT_EQ(ticks[0].dropped, 2U);
  EXPECT_EQ(ticks[1].verdicts.size(), kRecordingTickVerdicts);
  EXPECT_EQ(ticks[1].dropped, 3U);
}

CollectiveBatch batch_of(std::size_t entries) {
  CollectiveBatch batch;
  batch.first_index = 7;
  batch.entries.resize(entries);
  for (std::size_t i = 0; i < entries; ++i) {
    batch.entries[i].entered = unix_ns(static_cast<std::int64_t>(i) * 1000);
    batch.entries[i].what.count = i % 3;
  }
  return batch;
}

TEST(Recording, ATickBeyondTheMemoryBoundIsCutAndCounted) {
  const TempFolder folder;
  const auto writer = make(folder / "a.rung");
  const CollectiveBatch batch = batch_of(kRecordingBatchEntries);
  const std::size_t fitting =
      kRecordingTickBytes / (sizeof(Observation) + batch.entries.size() * sizeof(CollectiveEntry));
  for (std::size_t i = 0; i < fitting + 2; ++i) ASSERT_TRUE(writer->add({{}, batch}));
  ASSERT_TRUE(writer->end_tick(unix_ns(1), {}));
  ASSERT_TRUE(writer->finish());
  const auto ticks = read_all(folder / "a.rung");
  ASSERT_EQ(ticks.size(), 1U);
  EXPECT_EQ(ticks[0].observations.size(), fitting);
  EXPECT_EQ(ticks[0].dropped, 2U);
}

TEST(Recording, ALargeBatchIsSplitWithoutLoss) {
  const TempFolder folder;
  const auto writer = make(folder / "a.rung");
  const CollectiveBatch batch = batch_of(kRecordingBatchEntries + 10);
  Origin from;
  from.lost_before = 4;
  ASSERT_TRUE(writer->add({from, batch}));
  ASSERT_TRUE(writer->end_tick(unix_ns(1), {}));
  ASSERT_TRUE(writer->finish());
  const auto ticks = read_all(folder / "a.rung");
  ASSERT_EQ(ticks.size(), 1U);
  ASSERT_EQ(ticks[0].observations.size(), 2U);
  const auto& first = std::get<CollectiveBatch>(ticks[0].observations[0].what);
  const auto& second = std::get<CollectiveBatch>(ticks[0].observations[1].what);
  EXPECT_EQ(first.entries.size(), kRecordingBatchEntries);
  EXPECT_EQ(second.first_index, 7 + kRecordingBatchEntries);
  ASSERT_EQ(second.entries.size(), 10U);
  EXPECT_TRUE(same(second.entries.back(), batch.entries.back()));
  EXPECT_EQ(ticks[0].observations[0].from.lost_before, 4U);
  EXPECT_EQ(ticks[0].observations[1].from.lost_before, 0U);
}

// What four ranks of a real job give each second: jittered collectives, counters, calls, devices.
void add_rank_second(RecordingWriter& writer, Random& random, int rank, std::int64_t now) {
  Origin from{Source::kHostProbes, Rung::kHost, {1, 1000 + rank, 5}, unix_ns(now), 0};
  CollectiveBatch batch;
  batch.comm = {0x7f0000000000ULL + static_cast<std::uint64_t>(rank),
                {0x9250b9ac1b69107aULL, CommId::Source::kMemory},
                4,
                rank};
  for (int i = 0; i < 200; ++i) {
    const auto jitter = static_cast<std::int64_t>(random.below(4'000'000));
    const CollectiveSignature what{RUNG_OP_ALL_REDUCE, 7, 0, -1, 1024U * (1U + random.below(24))};
    batch.entries.push_back({unix_ns(now + i * 5'000'000 + jitter), what});
  }
  ASSERT_TRUE(writer.add({from, batch}));
  HostCallStats calls;
  for (int i = 1; i <= 8; ++i) {
    calls.classes.push_back({static_cast<CallClass>(i), random.below(1U << 30), 1U << 20});
  }
  ASSERT_TRUE(writer.add({from, calls}));
  for (int thread = 0; thread < 4; ++thread) {
    const UnixNs entered = unix_ns(now - static_cast<std::int64_t>(random.below(1'000'000'000)));
    ASSERT_TRUE(writer.add({from, InFlightCall{1000 + thread, RUNG_CALL_SYNC, "cuStreamSynchronize",
                                               entered, random.below(1U << 30), 'R'}}));
  }
  ProcessSample sample;
  sample.cpu_ns = static_cast<std::int64_t>(random.below(1ULL << 40));
  sample.read_bytes = random.below(1ULL << 40);
  sample.resident_bytes = random.below(1ULL << 36);
  ASSERT_TRUE(writer.add({from, sample}));
  DeviceSample device;
  device.device.uuid = "GPU-1234-" + std::to_string(rank);
  device.name = "NVIDIA H200";
  device.utilization_percent = static_cast<double>(random.below(100));
  device.memory_used_bytes = random.below(1ULL << 37);
  device.power_watts = 0.1 * static_cast<double>(random.below(7000));
  device.sm_clock_mhz = 1980;
  ASSERT_TRUE(writer.add({from, device}));
}

TEST(Recording, TwoMinutesOfFourRanksStayBelowTwoMegabytes) {
  const TempFolder folder;
  const auto writer = make(folder / "a.rung");
  Random random(4);
  for (std::int64_t second = 0; second < 120; ++second) {
    const std::int64_t now = 1'796'000'000'000'000'000 + second * 1'000'000'000;
    for (int rank = 0; rank < 4; ++rank) add_rank_second(*writer, random, rank, now);
    ASSERT_TRUE(writer->end_tick(unix_ns(now), {some_verdict(random)}));
  }
  ASSERT_TRUE(writer->finish());
  const auto bytes = std::filesystem::file_size(folder / "a.rung");
  EXPECT_LT(bytes, 2U << 20);
  RecordProperty("bytes", static_cast<int>(bytes));
}

// A document breaks lines between columns; the file does not.
std::string with_single_blanks(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const char plain = c == '\n' ? ' ' : c;
    if (plain != ' ' || out.empty() || out.back() != ' ') out += plain;
  }
  return out;
}

TEST(Recording, TheDocumentStatesTheSchema) {
  std::ifstream file(std::string(RUNG_TEST_DATA) + "/../../docs/recording.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = with_single_blanks(text.str());
  for (const std::string& sql : store::schema_sql()) {
    EXPECT_NE(document.find(sql + ";"), std::string::npos) << sql;
  }
}

}  // namespace
}  // namespace rung
