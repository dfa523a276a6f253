#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export/status.h"
#include "export/why.h"
#include "golden.h"
#include "samples.h"
#include "strict_json.h"

namespace rung {
namespace {

using namespace rung::testing;
using ::testing::HasSubstr;

// One field a line, so that differences can be read.
std::string spread(const std::string& json) {
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"' && (i == 0 || json[i - 1] != '\\')) quoted = !quoted;
    out += json[i];
    if (!quoted && (json[i] == ',' || json[i] == '{' || json[i] == '[')) out += '\n';
  }
  return out + '\n';
}

TEST(StrictJson, KnowsGoodFromBad) {
  EXPECT_TRUE(StrictJson::valid(R"({"a":[1,-2.5e+3,null,true,"\u00ff\n"],"b":{}})"));
  for (const char* bad : {"", "{", "{\"a\"}", "[1,]", "{\"a\":1,}", "01", "nul", "\"\\x\"",
                          "[1][2]", "{\"a\":nan}", "\"\n\""}) {
    EXPECT_FALSE(StrictJson::valid(bad)) << bad;
  }
}

TEST(WhyJson, IsTheContract) {
  JobView job = hung_job(4, 3);
  job.ranks[0].coverage.push_back(
      coverage_of(Rung::kState, Stage::kRefused, Reason::kUnknownBuild));
  const std::string json = why_json({job}, {hang_verdict(job, 3)}, {"coverage is that of now"});
  EXPECT_TRUE(StrictJson::valid(json)) << json;
  EXPECT_TRUE(json.starts_with(R"({"schema":"rung.why/1","jobs":[{"job":"slurm:4242.0")"));
  EXPECT_THAT(json, HasSubstr(R"("kind":"hang.rank_not_joined","severity":"error",)"
                              R"("job":"slurm:4242.0","attempt":0,"ranks":[3],)"
                              R"("waiting":{"set":"0-2","count":3},)"
                              R"("unobserved":{"set":"","count":0},)"
                              R"("since_unix_ns":1796219002000000000,)"
                              R"("since":"2026-12-02T13:43:22.000Z")"));
  EXPECT_THAT(json, HasSubstr(R"({"source":"host_probes","rung":"host","class":"kernel_host",)"
                              R"("rank":3,"duration_kind":"host_call",)"));
  EXPECT_THAT(json, HasSubstr(R"("value":12.6,"unit":"s"})"));
  EXPECT_THAT(json, HasSubstr(R"("simulated":false)"));
  expect_golden("why_hang.json.txt", spread(json));
}

TEST(WhyJson, UnknownIsNull) {
  JobView job;
  job.job.text = "run:1-2";
  job.ranks.resize(1);
  job.ranks[0].rank = RankId{0};
  job.ranks[0].coverage.resize(1);
  Verdict verdict;
  verdict.kind = std::string(kind::kUnknown);
  verdict.job = job.job;
  verdict.evidence.resize(1);
  const std::string json = why_json({job}, {verdict}, {});
  EXPECT_TRUE(StrictJson::valid(json)) << json;
  for (const char* field :
       {R"("world_size":null)", R"("label":null)", R"("since_unix_ns":null,"since":null)",
        R"("rank":null,"duration_kind":null)", R"("value":null,"unit":null)",
        R"("last_unix_ns":null,"last":null,"index":null,"per_second":null)",
        R"("reason":null,"detail":null,"since_unix_ns":null,"since":null,"lost":0,)"
        R"("blocked_by":null)"}) {
    EXPECT_THAT(json, HasSubstr(field));
  }
}

TEST(WhyJson, SimulatedAndHostileNamesSurvive) {
  JobView job = hung_job(2, 1);
  job.simulated = true;
  job.label = "\"\\\n\xff{}";
  Verdict verdict = hang_verdict(job, 1);
  verdict.evidence[0].value = std::numeric_limits<double>::quiet_NaN();
  const std::string json = why_json({job}, {verdict}, {"\x01"});
  EXPECT_TRUE(StrictJson::valid(json)) << json;
  EXPECT_THAT(json, HasSubstr(R"("simulated":true)"));
}

TEST(WhyJson, EmptyIsAnObjectToo) {
  EXPECT_EQ(why_json({}, {}, {}),
            R"({"schema":"rung.why/1","jobs":[],"verdicts":[],"coverage":[],"notes":[]})");
}

TEST(StatusJson, IsTheContract) {
  const JobView job = hung_job(2, 1);
  const std::string json = status_json({job}, {hang_verdict(job, 1)}, some_agent());
  EXPECT_TRUE(StrictJson::valid(json)) << json;
  EXPECT_TRUE(json.starts_with(R"({"schema":"rung.status/1","jobs":[{"job":"slurm:4242.0",)"
                               R"("attempt":0,)"));
  EXPECT_THAT(json, HasSubstr(R"("state":"hang")"));
  EXPECT_THAT(json, HasSubstr(R"("verdicts":["hang.rank_not_joined"])"));
  EXPECT_THAT(json, HasSubstr(R"({"rank":1,"pid":4001,)"));
  EXPECT_THAT(json, HasSubstr(R"("collectives_entered":1233)"));
  EXPECT_THAT(json, HasSubstr(R"("blocked":true,"blocked_seconds":45)"));
  expect_golden("status_hang.json.txt", spread(json));
}

TEST(StatusJson, UnknownIsNull) {
  JobView job;
  job.ranks.resize(1);
  job.ranks[0].rank = RankId{0};
  AgentHealth agent;
  const std::string json = status_json({job}, {}, agent);
  EXPECT_TRUE(StrictJson::valid(json)) << json;
  EXPECT_THAT(json, HasSubstr(R"("state":"unknown")"));
  EXPECT_THAT(json, HasSubstr(R"("state":null,"device":null)"));
  EXPECT_THAT(json, HasSubstr(R"("collectives_entered":null,"comm_size":null)"));
  EXPECT_THAT(json, HasSubstr(R"("last_call":null,"cpu_cores":null)"));
  EXPECT_THAT(json, HasSubstr(R"("last_tick_ms":null)"));
}

}  // namespace
}  // namespace rung
