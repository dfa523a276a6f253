#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "export/limits.h"
#include "export/why.h"
#include "golden.h"
#include "samples.h"

namespace rung {
namespace {

using namespace rung::testing;
using ::testing::HasSubstr;
using ::testing::Not;

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

std::string render(const JobView& job, const std::vector<Verdict>& verdicts,
                   TextOptions options = {}) {
  return why_text({job}, verdicts, {}, options);
}

TEST(WhyText, AHangIsNamedFirstWithItsEvidence) {
  const JobView job = hung_job(8, 3);
  const std::string text = why_text({job}, {hang_verdict(job, 3)}, {"a note"}, {});
  EXPECT_TRUE(text.starts_with("=== HANG  rank 3 ==="));
  EXPECT_THAT(text, HasSubstr("12 s ago, 13:43:22 UTC"));
  EXPECT_THAT(text, HasSubstr("7 ranks: 0-2,4-7"));
  EXPECT_THAT(text, HasSubstr("[host_probes, host_call: 12.6 s]"));
  expect_golden("why_hang.txt", text);
}

TEST(WhyText, SimulatedIsSaidNextToTheVerdict) {
  JobView job = hung_job(4, 1);
  EXPECT_THAT(render(job, {hang_verdict(job, 1)}), Not(HasSubstr("SIMULATED")));
  job.simulated = true;
  const std::string with_verdict = render(job, {hang_verdict(job, 1)});
  EXPECT_THAT(with_verdict.substr(0, 300), HasSubstr("*** SIMULATED"));
  EXPECT_THAT(render(job, {}), HasSubstr("*** SIMULATED"));
}

TEST(WhyText, FiveHundredRanksTakeAFewLines) {
  const JobView job = hung_job(512, 300);
  const std::string text = render(job, {hang_verdict(job, 300)});
  EXPECT_LT(lines_in(text), 35U);
  EXPECT_THAT(text, HasSubstr("0-299,301-511"));
  expect_golden("why_hang_512.txt", text);
}

TEST(WhyText, ManyDifferentRanksStayWithinTheRowLimit) {
  JobView job = hung_job(512, 300);
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    job.comms[0].members[i].entered = 1000 + i;
    job.ranks[i].threads[0].function = "function_" + std::to_string(i);
    job.ranks[i].coverage[0].lost = i % 2;
  }
  const std::string text = render(job, {hang_verdict(job, 300)});
  EXPECT_LT(lines_in(text), limits::kTableRows + 25);
  EXPECT_THAT(text, HasSubstr("several"));
  EXPECT_THAT(text, HasSubstr("1000-15"));  // a range of counts, not a guess
}

TEST(WhyText, MoreSituationsThanRowsAreCountedAsOther) {
  JobView job = hung_job(100, 3);
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    job.ranks[i].exit = ExitView{static_cast<std::int32_t>(i), std::nullopt, ago(5)};
  }
  const std::string text = render(job, {});
  EXPECT_THAT(text, HasSubstr("other: 84 ranks: 16-99 in further situations"));
}

TEST(WhyText, UnknownIsAQuestionMarkAndNeverZero) {
  JobView job = hung_job(2, 1);
  job.ranks[0] = RankView{};
  job.ranks[0].rank = RankId{0};
  job.comms.clear();
  job.world_size = Unknown{"not told"};
  const std::string text = render(job, {});
  EXPECT_THAT(text, HasSubstr("2 ranks seen, world size not known"));
  EXPECT_THAT(text, ::testing::ContainsRegex("  0 +\\? +\\? +\\? +\\? +\\? +\\? +\\?\n"));
}

TEST(WhyText, AVerdictWithoutSinceSaysSo) {
  const JobView job = hung_job(4, 1);
  Verdict verdict = hang_verdict(job, 1);
  verdict.since.reset();
  EXPECT_THAT(render(job, {verdict}), HasSubstr("since       not known"));
}

TEST(WhyText, YesterdayCarriesItsDate) {
  const JobView job = hung_job(4, 1);
  Verdict verdict = hang_verdict(job, 1);
  verdict.since = ago(100'000);
  EXPECT_THAT(render(job, {verdict}), HasSubstr("1 d 3 h ago, 2026-12-01 09:56:54 UTC"));
}

TEST(WhyText, MissingCoverageIsExplained) {
  JobView job = hung_job(8, 3);
  for (RankView& rank : job.ranks) {
    rank.coverage[1] = coverage_of(Rung::kHost, Stage::kRefused, Reason::kNoPermission);
    rank.coverage[1].detail = "CAP_BPF is missing";
    rank.coverage[0].lost = 4;
  }
  const std::string text = render(job, {});
  EXPECT_THAT(text, HasSubstr("host refused (no_permission) on 8 ranks: 0-7: CAP_BPF is missing"));
  EXPECT_THAT(text, HasSubstr("F+* H!"));
  EXPECT_THAT(text, HasSubstr("! refused"));
  EXPECT_THAT(text, HasSubstr("* records lost"));
}

TEST(WhyText, ColourOnlyOnRequest) {
  const JobView job = hung_job(4, 1);
  EXPECT_THAT(render(job, {hang_verdict(job, 1)}), Not(HasSubstr("\x1b")));
  TextOptions options;
  options.colour = true;
  EXPECT_TRUE(render(job, {hang_verdict(job, 1)}, options).starts_with("\x1b[1;31m=== HANG"));
}

TEST(WhyText, SentencesKeepToTheWidth) {
  const JobView job = hung_job(4, 1);
  TextOptions options;
  options.width = 60;
  const std::string text = render(job, {hang_verdict(job, 1)}, options);
  EXPECT_LE(widest_line(text.substr(0, text.find("ranks of"))), 60U);
}

TEST(WhyText, ForeignTextCannotReachTheTerminal) {
  JobView job = hung_job(4, 1);
  job.label = "a\x1b[31mb\nc";
  job.ranks[0].threads[0].function = "f\x1b]0;title\x07";
  Verdict verdict = hang_verdict(job, 1);
  verdict.summary = "s\x1b[2J\n";
  verdict.next = {"n\x1b[2J"};
  EXPECT_THAT(render(job, {verdict}), Not(HasSubstr("\x1b")));
}

TEST(WhyText, LongListsAreCutAndCounted) {
  const JobView job = hung_job(4, 1);
  Verdict verdict = hang_verdict(job, 1);
  verdict.evidence.resize(limits::kListLines + 7);
  EXPECT_THAT(render(job, {verdict}), HasSubstr("and 7 more"));
}

TEST(WhyText, AVerdictOfAnAbsentJobIsStillShown) {
  const JobView job = hung_job(4, 1);
  EXPECT_THAT(why_text({}, {hang_verdict(job, 1)}, {}, {}), HasSubstr("=== HANG  rank 1"));
}

}  // namespace
}  // namespace rung
