#include "sources/scheduler/identity.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/limits.h"

namespace rung {
namespace {

constexpr std::uint32_t kUser = 1000;

ProcessKey key(std::int32_t pid, std::uint64_t start = 0) {
  return {7, pid, start != 0 ? start : static_cast<std::uint64_t>(pid) * 10};
}

using Env = std::map<std::string, std::string>;

Candidate process(std::int32_t pid, std::vector<Ancestor> ancestors, Env env = {}) {
  Candidate candidate;
  candidate.key = key(pid);
  candidate.uid = kUser;
  candidate.ancestors = std::move(ancestors);
  candidate.env = std::move(env);
  candidate.exe = "/usr/bin/python3.11";
  candidate.session = 5;
  return candidate;
}

Ancestor above(std::int32_t pid, const char* comm, std::uint32_t uid = kUser) {
  return {key(pid), uid, comm};
}

Env torch_env(int rank, int world, const char* port = "29500") {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(world)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"MASTER_ADDR", "node1"},
          {"MASTER_PORT", port}};
}

const std::vector<Ancestor> kTorchrun = {above(100, "torchrun"), above(50, "bash"),
                                         above(40, "sshd"), above(1, "systemd", 0)};

std::vector<Candidate> torchrun_job(int world) {
  std::vector<Candidate> all;
  for (int rank = 0; rank < world; ++rank) {
    all.push_back(process(101 + rank, kTorchrun, torch_env(rank, world)));
  }
  return all;
}

TEST(JobOfCgroup, SlurmBothVersions) {
  EXPECT_EQ(job_of_cgroup("5:memory:/slurm/uid_1000/job_4242/step_0/task_3\n", kUser),
            "slurm:4242.0");
  EXPECT_EQ(job_of_cgroup("5:memory:/slurm_n7/uid_1000/job_4242/step_batch\n", kUser),
            "slurm:4242.batch");
  EXPECT_EQ(job_of_cgroup("0::/system.slice/slurmstepd.scope/job_77/step_1/user/task_0\n", kUser),
            "slurm:77.1");
  EXPECT_EQ(job_of_cgroup("0::/system.slice/n7_slurmstepd.scope/job_77/step_1/user\n", kUser),
            "slurm:77.1");
}

TEST(JobOfCgroup, KubernetesBothDrivers) {
  const std::string uid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
  std::string escaped = uid;
  std::replace(escaped.begin(), escaped.end(), '-', '_');
  EXPECT_EQ(job_of_cgroup("0::/kubepods/burstable/pod" + uid + "/0123abcd\n", kUser), "k8s:" + uid);
  EXPECT_EQ(job_of_cgroup("0::/kubepods/pod" + uid + "/0123abcd\n", kUser), "k8s:" + uid);
  EXPECT_EQ(job_of_cgroup("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" +
                              escaped + ".slice/cri-containerd-0123.scope\n",
                          kUser),
            "k8s:" + uid);
  EXPECT_EQ(job_of_cgroup("0::/kubepods.slice/kubepods-pod" + escaped + ".slice/x.scope\n", kUser),
            "k8s:" + uid);
}

TEST(JobOfCgroup, NothingElseIsAJob) {
  EXPECT_FALSE(job_of_cgroup("0::/docker/0123abcd\n", kUser));
  EXPECT_FALSE(job_of_cgroup("0::/system.slice/docker-0123abcd.scope\n", kUser));
  EXPECT_FALSE(job_of_cgroup("0::/user.slice/user-1000.slice/session-3.scope\n", kUser));
  EXPECT_FALSE(job_of_cgroup("0::/\n", kUser));
  EXPECT_FALSE(job_of_cgroup("", kUser));
  EXPECT_FALSE(job_of_cgroup("no colons", kUser));
}

TEST(JobOfCgroup, AUserCannotNameHisOwnGroupLikeTheSchedulers) {
  const std::string own = "0::/user.slice/user-1000.slice/user@1000.service/";
  EXPECT_FALSE(job_of_cgroup(own + "slurm/uid_0/job_1/step_0\n", kUser));
  EXPECT_FALSE(job_of_cgroup(own + "slurmstepd.scope/job_1/step_0\n", kUser));
  EXPECT_FALSE(job_of_cgroup(own + "kubepods/pod1\n", kUser));
  EXPECT_FALSE(job_of_cgroup("5:memory:/slurm/uid_0/job_1/step_0\n", kUser));  // another's job
  EXPECT_FALSE(job_of_cgroup("5:memory:/slurm/uid_1000/job_1x/step_0\n", kUser));
}

TEST(RankClaims, OneFamilyGivesAllThree) {
  Env env = torch_env(3, 8);
  env["OMPI_COMM_WORLD_RANK"] = "9";
  const RankClaim claim = rank_claim(env, false);
  EXPECT_EQ(claim.rank, 3);
  EXPECT_EQ(claim.world_size, 8);
  EXPECT_EQ(claim.local_rank, 3);
  EXPECT_EQ(claim.source, "RANK");
}

TEST(RankClaims, SlurmOnlyInsideSlurm) {
  const Env env = {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}};
  EXPECT_FALSE(rank_claim(env, false).rank);
  EXPECT_EQ(rank_claim(env, true).rank, 2);
}

TEST(RankClaims, ImpossibleOnesAreNotBelieved) {
  EXPECT_FALSE(rank_claim({{"RANK", "-1"}}, false).rank);
  EXPECT_FALSE(rank_claim({{"RANK", "3x"}}, false).rank);
  EXPECT_FALSE(rank_claim({{"RANK", "99999999999999"}}, false).rank);
  const RankClaim beyond = rank_claim(torch_env(8, 8), false);
  EXPECT_FALSE(beyond.rank);
  EXPECT_NE(beyond.problem.find("RANK=8"), std::string::npos);
  EXPECT_FALSE(rank_claim({{"RANK", "131072"}}, false).rank);
}

TEST(Identity, RanksOfOneLauncherAreOneJob) {
  IdentityTable table;
  const auto who = table.update(torchrun_job(4));
  ASSERT_EQ(who.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(who[i].job.text, "run:100-1000");
    EXPECT_EQ(who[i].rank, RankId{static_cast<std::int32_t>(i)});
    EXPECT_EQ(who[i].world_size, 4);
    EXPECT_EQ(who[i].launcher, key(100));
    EXPECT_EQ(who[i].executable, "python3.11");
    EXPECT_EQ(who[i].conflict, "");
    EXPECT_EQ(who[i].attempt, 0);
  }
}

TEST(Identity, RanksFoundOneAfterTheOtherAreOneJob) {
  IdentityTable table;
  const auto all = torchrun_job(4);
  for (std::size_t n = 1; n <= 4; ++n) {
    const auto who = table.update({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)});
    for (const auto& one : who) EXPECT_EQ(one.job.text, "run:100-1000");
  }
}

TEST(Identity, NestedLauncherWithAShellPerRank) {
  IdentityTable table;
  std::vector<Candidate> all;
  for (int rank = 0; rank < 3; ++rank) {
    all.push_back(
        process(201 + rank, {above(110 + rank, "bash"), above(100, "mpirun"), above(50, "bash")},
                {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)}, {"OMPI_COMM_WORLD_SIZE", "3"}}));
  }
  // Also when only one of them has been found so far.
  EXPECT_EQ(table.update({all[0]})[0].job.text, "run:100-1000");
  for (const auto& one : table.update(all)) EXPECT_EQ(one.job.text, "run:100-1000");
}

TEST(Identity, AJobKeepsItsNameWhenSiblingsEnd) {
  IdentityTable table;
  auto all = torchrun_job(3);
  table.update(all);
  all.resize(1);
  all[0].ancestors = {above(1, "systemd", 0)};  // the launcher died too: adopted by init
  const auto who = table.update(all);
  EXPECT_EQ(who[0].job.text, "run:100-1000");
  EXPECT_EQ(who[0].rank, RankId{0});
}

TEST(Identity, TwoJobsOfOneShellDoNotMerge) {
  IdentityTable table;
  const std::vector<Ancestor> shell = {above(50, "bash"), above(40, "sshd")};
  const auto two = table.update({process(60, shell), process(61, shell)});
  EXPECT_NE(two[0].job, two[1].job);
  for (const auto& one : two) {
    EXPECT_EQ(one.rank, RankId{0});
    EXPECT_EQ(one.world_size, 1);
  }
}

TEST(Identity, RankedJobsOfOneShellSplitByRendezvousWorldSizeAndRank) {
  const std::vector<Ancestor> shell = {above(50, "bash"), above(40, "sshd")};
  const auto jobs = [&](std::vector<Env> envs) {
    IdentityTable table;
    std::vector<Candidate> all;
    for (std::size_t i = 0; i < envs.size(); ++i) {
      all.push_back(process(60 + static_cast<std::int32_t>(i), shell, envs[i]));
    }
    std::vector<std::string> texts;
    for (const auto& one : table.update(all)) {
      EXPECT_TRUE(one.rank) << one.conflict;
      texts.push_back(one.job.text);
    }
    return texts;
  };
  auto same = jobs({torch_env(0, 2), torch_env(1, 2)});
  EXPECT_EQ(same[0], same[1]);
  auto ports = jobs({torch_env(0, 2), torch_env(1, 2, "29501")});
  EXPECT_NE(ports[0], ports[1]);
  auto sizes = jobs({torch_env(0, 2), torch_env(1, 4)});
  EXPECT_NE(sizes[0], sizes[1]);
  auto ranks = jobs({torch_env(0, 2), torch_env(1, 2), torch_env(0, 2), torch_env(1, 2)});
  EXPECT_EQ(ranks[0], ranks[1]);
  EXPECT_EQ(ranks[2], ranks[3]);
  EXPECT_NE(ranks[0], ranks[2]);
  Env a = torch_env(0, 2);
  Env b = torch_env(1, 2);
  a["TORCHELASTIC_RUN_ID"] = "a";
  b["TORCHELASTIC_RUN_ID"] = "b";
  auto runs = jobs({a, b});
  EXPECT_NE(runs[0], runs[1]);
}

TEST(Identity, TwoTorchrunsOfOneShell) {
  IdentityTable table;
  std::vector<Candidate> all;
  for (int launcher : {100, 200}) {
    for (int rank = 0; rank < 2; ++rank) {
      all.push_back(process(launcher + 1 + rank, {above(launcher, "torchrun"), above(50, "bash")},
                            torch_env(rank, 2)));
    }
  }
  const auto who = table.update(all);
  EXPECT_EQ(who[0].job.text, "run:100-1000");
  EXPECT_EQ(who[1].job.text, "run:100-1000");
  EXPECT_EQ(who[2].job.text, "run:200-2000");
  EXPECT_EQ(who[3].job.text, "run:200-2000");
}

TEST(Identity, AnotherUserIsNeverPartOfTheJob) {
  IdentityTable table;
  auto all = torchrun_job(2);
  Candidate stranger = process(300, kTorchrun, torch_env(1, 2));
  stranger.uid = 2000;
  stranger.key.start_ticks = 1;  // even when it came first
  all.push_back(stranger);
  const auto who = table.update(all);
  EXPECT_EQ(who[1].rank, RankId{1});
  EXPECT_EQ(who[1].conflict, "");
  EXPECT_NE(who[2].job, who[1].job);
}

TEST(Identity, AForgedRankLosesAgainstTheOneThatCameFirst) {
  IdentityTable table;
  auto all = torchrun_job(2);
  all.push_back(process(150, kTorchrun, torch_env(1, 2)));
  const auto who = table.update(all);
  EXPECT_EQ(who[1].rank, RankId{1});
  EXPECT_FALSE(who[2].rank);
  EXPECT_EQ(who[2].job, who[1].job);
  EXPECT_NE(who[2].conflict.find("process 102"), std::string::npos);
}

TEST(Identity, TheHolderOfARankIsNotDisplacedByAnOlderProcess) {
  IdentityTable table;
  auto all = torchrun_job(2);
  table.update(all);
  Candidate late = process(90, kTorchrun, torch_env(1, 2));  // started before, found after
  all.insert(all.begin(), late);
  const auto who = table.update(all);
  EXPECT_FALSE(who[0].rank);
  EXPECT_EQ(who[2].rank, RankId{1});
}

TEST(Identity, AForgedSlurmJobIsOnlyALabel) {
  IdentityTable table;
  Env env = torch_env(0, 1);
  env["SLURM_JOB_ID"] = "4242";
  env["SLURM_PROCID"] = "0";
  const auto who = table.update({process(60, {above(50, "bash")}, env)});
  EXPECT_EQ(who[0].job.text.substr(0, 4), "run:");
  EXPECT_NE(who[0].label.find("4242"), std::string::npos);
}

TEST(Identity, SlurmJobFromTheControlGroup) {
  IdentityTable table;
  std::vector<Candidate> all;
  for (int task = 0; task < 2; ++task) {
    all.push_back(process(60 + task, {above(50, "slurmstepd", 0)},
                          {{"SLURM_PROCID", std::to_string(4 + task)},
                           {"SLURM_NTASKS", "8"},
                           {"SLURM_JOB_ID", "1"},
                           {"SLURM_JOB_NAME", "llama\n"},
                           {"SLURM_RESTART_COUNT", "2"}}));
    all.back().cgroup = "0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0\n";
  }
  const auto who = table.update(all);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(who[i].job.text, "slurm:4242.0");
    EXPECT_EQ(who[i].rank, RankId{static_cast<std::int32_t>(4 + i)});
    EXPECT_EQ(who[i].world_size, 8);
    EXPECT_EQ(who[i].label, "llama?");
    EXPECT_EQ(who[i].attempt, 2);
  }
}

TEST(Identity, OneSlurmTaskThatStartsManyProcessesHasNoRanksFromSlurm) {
  IdentityTable table;
  std::vector<Candidate> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(
        process(60 + i, {above(50, "python3")}, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}));
    all.back().cgroup = "0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0\n";
  }
  for (const auto& one : table.update(all)) {
    EXPECT_EQ(one.job.text, "slurm:4242.0");
    EXPECT_FALSE(one.rank);
    EXPECT_EQ(one.conflict, "");
  }
}

TEST(Identity, WorkersThatAProgramStartsItselfAreOneJobWithoutRanks) {
  IdentityTable table;
  const std::vector<Ancestor> spawn = {above(60, "python3"), above(50, "bash")};
  const auto who =
      table.update({process(60, {above(50, "bash")}), process(61, spawn), process(62, spawn)});
  for (const auto& one : who) {
    EXPECT_EQ(one.job.text, "run:60-600");
    EXPECT_FALSE(one.rank);
  }
}

TEST(Identity, NotebooksOfOneServerAreDifferentJobs) {
  IdentityTable table;
  const std::vector<Ancestor> server = {above(50, "python3"), above(40, "sshd")};
  auto first = process(60, server);
  auto second = process(61, server);
  first.session = 60;
  second.session = 61;
  const auto who = table.update({first, second});
  EXPECT_NE(who[0].job, who[1].job);
  EXPECT_EQ(who[0].rank, RankId{0});
  EXPECT_EQ(who[1].rank, RankId{0});
}

TEST(Identity, DataLoaderWorkersAreNoRanks) {
  IdentityTable table;
  auto all = torchrun_job(2);
  std::vector<Ancestor> below = kTorchrun;
  below.insert(below.begin(), above(101, "python3"));
  all[0].libcuda_address = 0x7f0000000000;
  Candidate forked = process(120, below, torch_env(0, 2));
  forked.libcuda_address = 0x7f0000000000;
  Candidate executed = process(121, below, torch_env(0, 2));
  executed.libcuda_address = 0x7e0000000000;
  all.push_back(forked);
  all.push_back(executed);
  auto who = table.update(all);
  for (std::size_t i : {2u, 3u}) {
    EXPECT_EQ(who[i].job, who[0].job);
    EXPECT_FALSE(who[i].rank);
    EXPECT_NE(who[i].conflict.find("child of process 101"), std::string::npos);
  }
  // Left behind by a rank that died they do not become that rank.
  all.erase(all.begin());
  all[1].ancestors = {above(1, "systemd", 0)};
  who = table.update(all);
  EXPECT_FALSE(who[1].rank);
  EXPECT_EQ(who[1].attempt, 0);
}

TEST(Identity, ASingleProcessWithForkedWorkersIsRankZeroOfOne) {
  IdentityTable table;
  Candidate main = process(60, {above(50, "bash")});
  main.libcuda_address = 0x7f0000000000;
  Candidate worker = process(61, {above(60, "python3"), above(50, "bash")});
  worker.libcuda_address = 0x7f0000000000;
  const auto who = table.update({main, worker});
  EXPECT_EQ(who[0].rank, RankId{0});
  EXPECT_EQ(who[0].world_size, 1);
  EXPECT_FALSE(who[1].rank);
}

TEST(Identity, ARestartedRankIsANewAttempt) {
  IdentityTable table;
  auto all = torchrun_job(2);
  table.update(all);
  all[1] = process(140, kTorchrun, torch_env(1, 2));
  const auto who = table.update(all);
  EXPECT_EQ(who[0].attempt, 0);
  EXPECT_EQ(who[1].attempt, 1);
  EXPECT_EQ(who[1].rank, RankId{1});
  EXPECT_EQ(who[1].job, who[0].job);
}

TEST(Identity, AllRanksRestartedByTheirLauncherStayInTheJob) {
  IdentityTable table;
  table.update(torchrun_job(2));
  table.update({});
  std::vector<Candidate> again;
  for (int rank = 0; rank < 2; ++rank) {
    Env env = torch_env(rank, 2);
    env["TORCHELASTIC_RESTART_COUNT"] = "1";
    again.push_back(process(140 + rank, kTorchrun, env));
  }
  for (const auto& one : table.update(again)) {
    EXPECT_EQ(one.job.text, "run:100-1000");
    EXPECT_EQ(one.attempt, 1);
  }
}

TEST(Identity, PidReuseIsAnotherProcessAndAnotherLauncher) {
  IdentityTable table;
  auto all = torchrun_job(2);
  table.update(all);
  all[1].key.start_ticks += 5000;  // same pid, started later
  const auto who = table.update(all);
  EXPECT_EQ(who[1].attempt, 1);
  auto other = torchrun_job(2);
  for (auto& candidate : other) {
    candidate.key.start_ticks += 9000;
    candidate.ancestors[0].key.start_ticks += 8000;
  }
  for (const auto& one : table.update(other)) {
    EXPECT_EQ(one.job.text, "run:100-9000");
    EXPECT_EQ(one.attempt, 0);
  }
}

TEST(Identity, AWrapperThatExecsStaysTheSameRank) {
  IdentityTable table;
  auto all = torchrun_job(2);
  all[0].exe = "/usr/bin/bash";
  table.update(all);
  all[0].exe = "/usr/bin/python3.11";
  const auto who = table.update(all);
  EXPECT_EQ(who[0].rank, RankId{0});
  EXPECT_EQ(who[0].attempt, 0);
  EXPECT_EQ(who[0].executable, "python3.11");
}

TEST(Identity, OneRankJobsOfOneProgramAreDifferentJobs) {
  IdentityTable table;
  const std::vector<Ancestor> sweep = {above(90, "sweep"), above(50, "bash")};
  const auto who =
      table.update({process(101, sweep, torch_env(0, 1)), process(102, sweep, torch_env(0, 1))});
  EXPECT_NE(who[0].job, who[1].job);
  EXPECT_EQ(who[1].rank, RankId{0});
}

TEST(Identity, ForgottenJobsAreCounted) {
  IdentityTable table;
  const int extra = 10;
  for (int i = 0; i < static_cast<int>(limits::kEndedJobs) + extra; ++i) {
    table.update({process(1000 + i, {})});
  }
  table.update({});
  EXPECT_EQ(table.forgotten_jobs(), static_cast<std::uint64_t>(extra));
}

}  // namespace
}  // namespace rung
