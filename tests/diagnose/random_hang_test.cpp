// Random hangs in a job with tensor, pipeline and data parallelism.
#include <gtest/gtest.h>

#include <random>

#include "diagnose/diagnose.h"
#include "diagnose/situation.h"
#include "parallel_job.h"
#include "timeline/wait_graph.h"

namespace rung {
namespace {

using testing::Layout;
using testing::ParallelJob;
using testing::ViewBuilder;

struct Hang {
  int culprit;
  std::size_t stop;
  std::size_t run_ahead;
};

Hang random_hang(std::mt19937& random, const ParallelJob& job, const Layout& layout) {
  Hang out{};
  out.culprit = std::uniform_int_distribution<int>(0, layout.world() - 1)(random);
  out.stop = std::uniform_int_distribution<std::size_t>(1, job.length(out.culprit) - 1)(random);
  out.run_ahead = std::uniform_int_distribution<std::size_t>(0, 6)(random);
  return out;
}

TEST(RandomHang, ProgramEndsWhenNobodyStops) {
  const Layout layout;
  ParallelJob job(layout, 2, 3);
  job.run(-1, 0, 3);
  EXPECT_TRUE(job.finished());
}

TEST(RandomHang, SinkIsExactlyTheCulprit) {
  const Layout layout;
  ParallelJob job(layout, 2, 3);
  std::mt19937 random(4242);
  for (int i = 0; i < 200; ++i) {
    const Hang hang = random_hang(random, job, layout);
    job.run(hang.culprit, hang.stop, hang.run_ahead);
    ASSERT_FALSE(job.finished());
    ViewBuilder builder = job.view(1000, 940 - 1);
    const Movement movement(builder.view());
    const WaitGraph graph(builder.view(), movement);
    EXPECT_EQ(graph.sinks(), RankSet({hang.culprit})) << "hang " << i;
    EXPECT_TRUE(graph.cycles().empty()) << "hang " << i;

    Resolver resolver;
    const auto verdicts = diagnose(builder.view(), resolver);
    ASSERT_EQ(testing::kinds(verdicts), std::vector<std::string>{"hang.rank_not_joined"});
    EXPECT_EQ(verdicts[0].ranks, RankSet({hang.culprit})) << "hang " << i;
    EXPECT_FALSE(verdicts[0].waiting.contains(RankId{hang.culprit}));
  }
}

// Some nodes of eight ranks are not observed. The culprit may be named; nobody else may, and where
// unobserved ranks are blamed the culprit must be among them, or be behind one that was told.
TEST(RandomHang, UnobservedNodesNeverMakeAnInnocentOne) {
  const Layout layout;
  ParallelJob job(layout, 2, 3);
  std::mt19937 random(77);
  int named = 0;
  int blamed_unobserved = 0;
  for (int i = 0; i < 200; ++i) {
    const Hang hang = random_hang(random, job, layout);
    job.run(hang.culprit, hang.stop, hang.run_ahead);
    ViewBuilder builder = job.view(1000, 939);
    RankSet hidden;
    for (int node = 0; node < 4; ++node) {
      const bool hide = std::uniform_int_distribution<int>(0, 1)(random) == 1;
      for (int rank = node * 8; hide && rank < node * 8 + 8; ++rank) {
        builder.forget(rank);
        hidden.insert(RankId{rank});
      }
    }
    if (builder.view().ranks.empty()) continue;
    Resolver resolver;
    for (const Verdict& verdict : diagnose(builder.view(), resolver)) {
      EXPECT_TRUE((verdict.ranks - RankSet({hang.culprit})).empty() ||
                  verdict.kind == kind::kUnknown)
          << verdict.kind << " " << verdict.ranks.text() << " culprit " << hang.culprit;
      named += verdict.ranks.contains(RankId{hang.culprit});
      if (verdict.kind == kind::kStallWaitingForRank && verdict.ranks.empty()) {
        ++blamed_unobserved;
        EXPECT_EQ(verdict.confidence, Confidence::kPossible);
        EXPECT_TRUE((verdict.unobserved - hidden).empty());
        if (hidden.contains(RankId{hang.culprit})) {
          EXPECT_TRUE(verdict.unobserved.contains(RankId{hang.culprit}));
        }
      }
    }
  }
  EXPECT_GT(named, 10);
  EXPECT_GT(blamed_unobserved, 50);
}

// Single ranks scattered over the job are not observed.
TEST(RandomHang, ScatteredUnobservedRanks) {
  const Layout layout;
  ParallelJob job(layout, 2, 3);
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    const Hang hang = random_hang(random, job, layout);
    job.run(hang.culprit, hang.stop, hang.run_ahead);
    ViewBuilder builder = job.view(1000, 939);
    for (int k = 0; k < 3; ++k) {
      builder.forget(std::uniform_int_distribution<int>(0, layout.world() - 1)(random));
    }
    Resolver resolver;
    for (const Verdict& verdict : diagnose(builder.view(), resolver)) {
      EXPECT_TRUE((verdict.ranks - RankSet({hang.culprit})).empty())
          << verdict.kind << " " << verdict.ranks.text() << " culprit " << hang.culprit;
    }
  }
}

}  // namespace
}  // namespace rung
