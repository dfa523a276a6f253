#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export/status.h"
#include "golden.h"
#include "samples.h"

namespace rung {
namespace {

using namespace rung::testing;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatusText, ShowsJobsRanksAndTheAgent) {
  const JobView job = hung_job(8, 3);
  const std::string text = status_text({job}, {hang_verdict(job, 3)}, some_agent(), {});
  EXPECT_TRUE(text.starts_with("HANG  slurm:4242.0 \"llama-70b\"\n"));
  EXPECT_THAT(text, HasSubstr("call blocked for 45 s"));
  EXPECT_THAT(text, Not(HasSubstr("driver")));  // a blocked call proves no dead driver
  expect_golden("status_hang.txt", text);
}

TEST(StatusText, SaysWhenThereIsNoJob) {
  EXPECT_THAT(status_text({}, {}, some_agent(), {}), HasSubstr("no job that uses CUDA"));
}

TEST(StatusText, SimulatedIsSaid) {
  JobView job = hung_job(2, 1);
  job.simulated = true;
  EXPECT_THAT(status_text({job}, {}, some_agent(), {}), HasSubstr("*** SIMULATED"));
}

TEST(StatusText, AnEndedJobShowsHowItsRanksEnded) {
  JobView job = hung_job(3, 1);
  job.ended = true;
  job.ranks[0].exit = ExitView{0, std::nullopt, ago(3)};
  job.ranks[1].exit = ExitView{std::nullopt, 9, ago(4)};
  job.ranks[2].exit = ExitView{std::nullopt, std::nullopt, ago(3)};
  const std::string text = status_text({job}, {}, some_agent(), {});
  EXPECT_TRUE(text.starts_with("ENDED"));
  EXPECT_THAT(text, HasSubstr("exited 0"));
  EXPECT_THAT(text, HasSubstr("killed by signal 9"));
  EXPECT_THAT(text, HasSubstr("gone"));
}

}  // namespace
}  // namespace rung
