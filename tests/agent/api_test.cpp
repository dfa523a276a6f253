#include "agent/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace rung {
namespace {

constexpr std::int64_t kStart = 1'700'000'000'000'000'000;
UnixNs at(double seconds) { return unix_ns(kStart + static_cast<std::int64_t>(seconds * 1e9)); }

void add_rank(Judge& judge, std::int32_t pid, const std::string& job, std::uint32_t uid,
              std::int32_t rank) {
  ProcessIdentity identity;
  identity.job = JobId{job};
  identity.rank = RankId{rank};
  identity.world_size = 2;
  identity.uid = uid;
  identity.label = "label-of-" + job;
  judge.absorb(
      {Origin{Source::kScheduler, Rung::kFleet, ProcessKey{1, pid, 5}, at(0), 0}, identity});
}

class ApiTest : public testing::Test {
 protected:
  ApiTest()
      : folder_(testing::TempDir() + "rung-api." + std::to_string(::getpid())),
        recordings_(folder_),
        api_(Api::Parts{judge_, recordings_, [] { return AgentHealth{}; },
                        [this]() -> const std::vector<DeviceSample>& { return devices_; },
                        [] { return at(1); }}) {
    for (const std::int32_t rank : {0, 1}) {
      add_rank(judge_, 10 + rank, "slurm:42.0", 1000, rank);
      add_rank(judge_, 20 + rank, "slurm:43.0", 2000, rank);
    }
    judge_.tick(at(1));
  }
  ~ApiTest() override { std::filesystem::remove_all(folder_); }

  HttpReply ask(const std::string& path, std::optional<std::uint32_t> uid,
                std::map<std::string, std::string> query = {}, bool post = false) {
    return api_.local(HttpRequest{post, path, std::move(query), uid});
  }

  std::string folder_;
  std::vector<DeviceSample> devices_;
  Judge judge_;
  Recordings recordings_;
  Api api_;
};

bool names(const HttpReply& reply, const std::string& job) {
  return reply.body.find("\"" + job + "\"") != std::string::npos;
}

TEST_F(ApiTest, RootSeesAllOthersTheirOwn) {
  for (const char* path : {"/v1/why", "/v1/status"}) {
    const HttpReply root = ask(path, 0);
    EXPECT_TRUE(names(root, "slurm:42.0") && names(root, "slurm:43.0")) << path;
    const HttpReply user = ask(path, 1000);
    EXPECT_TRUE(names(user, "slurm:42.0") && !names(user, "slurm:43.0")) << path;
    const HttpReply stranger = ask(path, 3000);
    EXPECT_FALSE(names(stranger, "slurm:42.0") || names(stranger, "slurm:43.0")) << path;
  }
}

TEST_F(ApiTest, WithoutPeerCredentialsNothingIsAnswered) {
  const HttpReply reply = ask("/v1/why", std::nullopt);
  EXPECT_EQ(reply.status, 403);
  EXPECT_EQ(reply.exit_code, 77);
}

TEST_F(ApiTest, JobsGoByIdLabelOrNumber) {
  for (const char* name : {"slurm:42.0", "label-of-slurm:42.0", "42"}) {
    const HttpReply reply = ask("/v1/why", 0, {{"job", name}});
    EXPECT_TRUE(names(reply, "slurm:42.0") && !names(reply, "slurm:43.0")) << name;
  }
  const HttpReply foreign = ask("/v1/why", 1000, {{"job", "slurm:43.0"}});
  EXPECT_EQ(foreign.status, 404) << "as if it did not exist";
  EXPECT_EQ(foreign.exit_code, 66);
}

TEST_F(ApiTest, NothingSeenMeansUnknownAndExitTwo) {
  EXPECT_EQ(ask("/v1/why", 0).exit_code, 2);
  EXPECT_EQ(ask("/v1/why", 0, {{"fail_on", "unknown"}}).exit_code, 1);
}

TEST_F(ApiTest, RecordingsBelongToWhoBeganThem) {
  EXPECT_EQ(ask("/v1/record", 1000, {{"seconds", "1"}}).status, 400) << "not by GET";
  const HttpReply begun = ask("/v1/record", 1000, {{"seconds", "1"}}, true);
  ASSERT_EQ(begun.status, 200) << begun.body;
  const std::string id = begun.body.substr(0, begun.body.find('\n'));
  EXPECT_EQ(ask("/v1/record/state", 2000, {{"id", id}}).status, 404);
  EXPECT_EQ(ask("/v1/record/file", 1000, {{"id", id}}).status, 404) << "not complete";
  recordings_.tick(at(3), {}, judge_);
  EXPECT_EQ(ask("/v1/record/state", 1000, {{"id", id}}).body, "done 1\n");
  const HttpReply file = ask("/v1/record/file", 1000, {{"id", id}});
  EXPECT_TRUE(file.body.starts_with("SQLite format 3"));
  EXPECT_EQ(file.body.find("slurm:43.0"), std::string::npos) << "nothing of a foreign job";
  EXPECT_EQ(ask("/v1/record/file", 1000, {{"id", id}}).status, 404) << "fetched once";
}

TEST_F(ApiTest, RecordingsAreBounded) {
  for (std::size_t i = 0; i < Recordings::kAtOnce; ++i) {
    EXPECT_EQ(ask("/v1/record", 0, {{"seconds", "60"}}, true).status, 200);
  }
  EXPECT_EQ(ask("/v1/record", 0, {{"seconds", "60"}}, true).status, 503);
  for (const char* seconds : {"", "0", "-1", "nan", "3601", "1x"}) {
    EXPECT_EQ(ask("/v1/record", 0, {{"seconds", seconds}}, true).status, 400) << seconds;
  }
}

TEST_F(ApiTest, MetricsPageServesNothingElse) {
  EXPECT_EQ(api_.metrics(HttpRequest{false, "/metrics", {}, std::nullopt}).status, 200);
  EXPECT_EQ(api_.metrics(HttpRequest{false, "/v1/why", {}, std::nullopt}).status, 404);
}

TEST(Judge, VerdictsOfThePastCanBeAskedFor) {
  Judge judge;
  add_rank(judge, 10, "run:1-1", 0, 0);
  add_rank(judge, 11, "run:1-1", 0, 1);
  const auto sample = [&](double t, ProcessState state) {
    ProcessSample out;
    out.state = state;
    judge.absorb({Origin{Source::kProcfs, Rung::kFleet, ProcessKey{1, 11, 5}, at(t), 0}, out});
    judge.tick(at(t));
  };
  for (int t = 1; t <= 6; ++t) sample(t, ProcessState::kStopped);
  for (int t = 7; t <= 12; ++t) sample(t, ProcessState::kRunning);
  const auto kinds = [](const std::vector<Verdict>& verdicts) {
    std::vector<std::string> out;
    for (const Verdict& verdict : verdicts) out.push_back(verdict.kind);
    return out;
  };
  EXPECT_THAT(kinds(judge.verdicts_at(at(5))), testing::Contains("rank.stopped"));
  EXPECT_THAT(kinds(judge.verdicts_at(at(12))), testing::Not(testing::Contains("rank.stopped")));
  EXPECT_TRUE(judge.verdicts_at(at(-100)).empty());
}

}  // namespace
}  // namespace rung
