#include <gtest/gtest.h>

#include "model/known.h"
#include "model/limits.h"
#include "model/rank_set.h"
#include "model/time.h"
#include "model/verdict.h"

namespace rung {
namespace {

using Host = Elapsed<DurationKind::kHostCall>;
using Kernel = Elapsed<DurationKind::kDeviceKernel>;

template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };
template <class A, class B>
concept Comparable = requires(A a, B b) { a < b; };
template <class E>
concept GivesBandwidth = requires(Bytes bytes, E took) { algorithm_bandwidth(bytes, took); };

// Durations of different meaning do not mix; each refusal has a twin that must compile.
static_assert(Addable<Host, Host> && !Addable<Host, Kernel>);
static_assert(Comparable<Kernel, Kernel> && !Comparable<Host, Kernel>);
static_assert(GivesBandwidth<Kernel> && !GivesBandwidth<Host>);
static_assert(GivesBandwidth<Elapsed<DurationKind::kEndToEnd>>);
static_assert(!GivesBandwidth<Elapsed<DurationKind::kQueue>>);
static_assert(std::is_constructible_v<Host, std::chrono::seconds> &&
              !std::is_constructible_v<Host, int>);
static_assert(!Comparable<UnixNs, JobNs> && Comparable<JobNs, JobNs>);

TEST(Bandwidth, IsBytesOverNanoseconds) {
  const auto speed = algorithm_bandwidth(Bytes{8'000'000}, Kernel(std::chrono::milliseconds(1)));
  EXPECT_DOUBLE_EQ(speed.maybe()->value, 8.0);
  EXPECT_FALSE(algorithm_bandwidth(Bytes{1}, Kernel(std::chrono::nanoseconds(0))).maybe());
}

TEST(Known, BothCasesMustBeHandled) {
  const Known<int> known = 3;
  const Known<int> unknown = Unknown{"no right to look"};
  const auto describe = [](const Known<int>& value) {
    return value.match([](int number) { return std::to_string(number); },
                       [](Unknown why) { return std::string(why.reason); });
  };
  EXPECT_EQ(describe(known), "3");
  EXPECT_EQ(describe(unknown), "no right to look");
}

TEST(RankSet, PrintsRanges) {
  EXPECT_EQ((RankSet{0, 1, 2, 5, 7, 8}).text(), "0-2,5,7-8");
  EXPECT_EQ(RankSet().text(), "");
  EXPECT_EQ(RankSet::first(100).text(), "0-99");
}

TEST(RankSet, SetAlgebraAcrossWords) {
  RankSet a = RankSet::first(200);
  a.erase(RankId{37});
  EXPECT_EQ(a.count(), 199u);
  EXPECT_EQ(a.text(), "0-36,38-199");
  EXPECT_EQ((RankSet::first(200) - a).text(), "37");
  EXPECT_EQ((a & RankSet{36, 37, 300}).text(), "36");
  EXPECT_EQ((RankSet{1} | RankSet{199}).text(), "1,199");
  EXPECT_TRUE((RankSet{1, 2} == (RankSet{1, 2, 150} - RankSet{150})));
}

TEST(RankSet, AbsurdRanksAreIgnored) {
  RankSet set;
  set.insert(RankId{-1});
  set.insert(RankId{static_cast<std::int32_t>(limits::kRanksPerJob)});
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(RankSet::first(std::size_t{1} << 40).count(), limits::kRanksPerJob);
}

Verdict verdict(std::string_view kind) {
  Verdict out;
  out.kind = kind;
  return out;
}

TEST(WhyExitCode, AccusationsAreOneUnknownTwoTheRestZero) {
  EXPECT_EQ(why_exit_code({}, {}), 0);
  EXPECT_EQ(why_exit_code({verdict(kind::kHealthyComputing)}, {}), 0);
  EXPECT_EQ(why_exit_code({verdict(kind::kStallWaitingForRank)}, {}), 0);
  EXPECT_EQ(why_exit_code({verdict(kind::kPauseCheckpoint)}, {}), 0);
  EXPECT_EQ(why_exit_code({verdict(kind::kUnknown)}, {}), 2);
  EXPECT_EQ(why_exit_code({verdict(kind::kUnknown), verdict(kind::kHealthyComputing)}, {}), 0);
  EXPECT_EQ(why_exit_code({verdict(kind::kUnknown), verdict(kind::kRankDead)}, {}), 1);
  EXPECT_EQ(why_exit_code({verdict(kind::kObserverLossy)}, {}), 1);
}

TEST(WhyExitCode, FailOnTakesKindsAndFamilies) {
  EXPECT_EQ(why_exit_code({verdict(kind::kStallWaitingForRank)}, {"stall"}), 1);
  EXPECT_EQ(why_exit_code({verdict(kind::kPauseCheckpoint)}, {"pause.checkpoint"}), 1);
  EXPECT_EQ(why_exit_code({verdict(kind::kPauseCheckpoint)}, {"pause.input"}), 0);
}

}  // namespace
}  // namespace rung
