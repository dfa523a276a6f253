// The command line as a person meets it: exit codes, one line on stderr, hints.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <functional>

#include "support/json.h"
#include "support/live_agent.h"

namespace rung {
namespace {

struct Outcome {
  int exit = -1;
  std::string out;
  std::string err;
};

std::string slurp(int fd) {
  std::string text;
  char chunk[4096];
  ::lseek(fd, 0, SEEK_SET);
  ssize_t got = 0;
  while ((got = ::read(fd, chunk, sizeof chunk)) > 0)
    text.append(chunk, static_cast<std::size_t>(got));
  return text;
}

// Runs `rung` with arguments; `prepare` runs in the child before it.
Outcome rung(std::vector<std::string> arguments, const std::function<void()>& prepare = {}) {
  const int out = ::memfd_create("out", 0);
  const int err = ::memfd_create("err", 0);
  arguments.insert(arguments.begin(), RUNG_BINARY);
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (prepare) prepare();
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
  ::close(out);
  ::close(err);
  return outcome;
}

// The complaint is one line that holds all `parts`.
void expect_complaint(const Outcome& outcome, int exit, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.exit, exit) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  for (const std::string& part : parts) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }
}

void drop_capability(int capability) { ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0); }

std::string write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

TEST(Cli, VersionAndHelp) {
  EXPECT_EQ(rung({"--version"}).out, "rung 0.1.0\n");
  for (const char* command :
       {"demo", "agent", "status", "why", "doctor", "record", "replay", "sim"}) {
    const Outcome help = rung({command, "--help"});
    EXPECT_EQ(help.exit, 0) << command;
    EXPECT_NE(help.out.find("--help"), std::string::npos) << command;
  }
}

TEST(Cli, UnknownCommandOrOptionIsUsage) {
  expect_complaint(rung({"wyh"}), 64, {"wyh", "rung --help"});
  expect_complaint(rung({}), 64, {"rung --help"});
  expect_complaint(rung({"why", "--jsn"}), 64, {"--jsn", "rung why --help"});
  expect_complaint(rung({"record"}), 64, {"output"});
  expect_complaint(rung({"why", "--at", "yesterday"}), 64, {"yesterday", "hint"});
}

TEST(Cli, WithoutAgentIsUnavailable) {
  const test::TemporaryFolder folder;
  const std::string socket = folder.path() + "/none.sock";
  for (const char* command : {"why", "status"}) {
    expect_complaint(rung({command, "--socket", socket}), 69, {"no agent", "rung agent"});
  }
  expect_complaint(rung({"record", "-o", folder.path() + "/r", "--socket", socket}), 69,
                   {"no agent"});
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/r"));
}

TEST(Cli, ConfigErrors) {
  const test::TemporaryFolder folder;
  const std::string bad = write(folder.path() + "/bad.toml", "sokcet = \"x\"\n");
  expect_complaint(rung({"agent", "--check", "--config", bad}), 65, {"sokcet", "bad.toml:1"});
  const std::string broken = write(folder.path() + "/broken.toml", "a = [\n");
  expect_complaint(rung({"agent", "--config", broken}), 65, {"broken.toml"});
  expect_complaint(rung({"agent", "--config", folder.path() + "/none.toml"}), 66, {"none.toml"});
  const std::string locked = write(folder.path() + "/locked.toml", "");
  ::chmod(locked.c_str(), 0);
  const auto without_override = [] {
    drop_capability(CAP_DAC_OVERRIDE);
    drop_capability(CAP_DAC_READ_SEARCH);
  };
  expect_complaint(rung({"agent", "--config", locked}, without_override), 77, {"locked.toml"});
  const std::string good = write(folder.path() + "/good.toml", "log_level = \"debug\"\n");
  const Outcome checked = rung({"agent", "--check", "--config", good});
  EXPECT_EQ(checked.exit, 0);
  EXPECT_NE(checked.out.find("debug"), std::string::npos);
}

TEST(Cli, SecondAgentAndTakenSocketAreUnavailable) {
  const test::TemporaryFolder folder;
  const test::LiveAgent agent(folder.path(), folder.path());
  ASSERT_TRUE(agent.await_ready()) << agent.log();
  expect_complaint(rung({"agent", "--config", agent.config()}), 69, {"another agent"});
  EXPECT_FALSE(agent.why().empty()) << "the first one goes on";
  write(folder.path() + "/file", "mine");
  const std::string config = write(folder.path() + "/other.toml",
                                   "socket = \"" + folder.path() + "/file\"\nstate_dir = \"" +
                                       folder.path() + "/s\"\nprometheus_listen = \"\"\n");
  expect_complaint(rung({"agent", "--config", config}), 69, {"no socket"});
  EXPECT_EQ(slurp(::open((folder.path() + "/file").c_str(), O_RDONLY)), "mine");
}

TEST(Cli, StaleSocketOfAKilledAgentIsReplaced) {
  const test::TemporaryFolder folder;
  {
    test::LiveAgent killed(folder.path(), folder.path());
    ASSERT_TRUE(killed.await_ready()) << killed.log();
    killed.stop(SIGKILL);
  }
  test::LiveAgent next(folder.path(), folder.path());
  EXPECT_TRUE(next.await_ready()) << next.log();
  EXPECT_EQ(next.stop(SIGTERM), 0) << "ends with 0 when asked to";
}

TEST(Cli, AgentWithoutJobsSaysSo) {
  const test::TemporaryFolder folder;
  const test::LiveAgent agent(folder.path(), folder.path());
  ASSERT_TRUE(agent.await_ready()) << agent.log();
  const Outcome why = rung({"why", "--json", "--socket", agent.socket()});
  EXPECT_EQ(why.exit, 0);
  EXPECT_EQ(test::json_at(why.out, "$.schema"), "rung.why/1");
  expect_complaint(rung({"why", "slurm:1.0", "--socket", agent.socket()}), 66, {"slurm:1.0"});
  const Outcome status = rung({"status", "--json", "--socket", agent.socket()});
  EXPECT_EQ(test::json_at(status.out, "$.schema"), "rung.status/1");
}

TEST(Cli, ReplayOfWhatIsNoRecording) {
  const test::TemporaryFolder folder;
  expect_complaint(rung({"replay", folder.path() + "/none"}), 66, {"none"});
  expect_complaint(rung({"replay", write(folder.path() + "/junk", "hello")}), 65, {"junk"});
  expect_complaint(rung({"replay", folder.path()}), 65, {});
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_complaint(rung({"replay", fifo}), 65, {"fifo"});
}

TEST(Cli, RecordNeverOverwrites) {
  const test::TemporaryFolder folder;
  const std::string file = write(folder.path() + "/mine", "mine");
  expect_complaint(rung({"record", "-o", file}), 64, {"exists"});
  EXPECT_EQ(slurp(::open(file.c_str(), O_RDONLY)), "mine");
}

TEST(Cli, RecordedEvidenceReplaysToTheLiveVerdicts) {
  const test::TemporaryFolder folder;
  const test::LiveAgent agent(folder.path(), folder.path() + "/run");
  ASSERT_TRUE(agent.await_ready()) << agent.log();
  const Result<sim::Scenario> scenario = sim::load_scenario("rank_sigstop");
  ASSERT_TRUE(scenario) << scenario.error().message;
  const std::string label = "record-" + std::to_string(::getpid());
  auto job = sim::Run::start(*scenario, {folder.path() + "/run", "", label});
  ASSERT_TRUE(job) << job.error().message;
  for (int i = 0; i < 100 && rung({"why", label, "--socket", agent.socket()}).exit == 66; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const std::string file = folder.path() + "/evidence.rung";
  const Outcome recorded =
      rung({"record", "-o", file, "--for", "14", label, "--socket", agent.socket()});
  ASSERT_EQ(recorded.exit, 0) << recorded.err;
  const Outcome replayed = rung({"replay", "--json", file});
  EXPECT_EQ(replayed.exit, 1) << "a rank was stopped";
  EXPECT_EQ(test::json_at(replayed.out, "$.schema"), "rung.replay/1");
  EXPECT_EQ(test::json_at(replayed.out, "$.differing_ticks"), "0");
  EXPECT_NE(replayed.out.find("rank.stopped"), std::string::npos);
  EXPECT_EQ(rung({"replay", "--check", file}).exit, 0);
  // Cut short or bent, it is refused or read as far as it goes; it never crashes.
  std::filesystem::resize_file(file, 10000);
  EXPECT_EQ(rung({"replay", file}).exit, 65);
  (*job)->stop();
}

TEST(Cli, UnknownScenario) {
  expect_complaint(rung({"sim", "run", "no_such_thing"}), 66, {"no_such_thing"});
}

// Without a capability the host rung is refused by name; the agent goes on with what is left.
class WithoutCapability : public testing::TestWithParam<std::pair<int, const char*>> {};

TEST_P(WithoutCapability, DoctorAndAgentNameIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to drop capabilities";
  const auto [capability, name] = GetParam();
  const auto without = [capability = capability] {
    drop_capability(CAP_SYS_ADMIN);  // stands in for the others
    drop_capability(capability);
  };
  const Outcome doctor = rung({"doctor", "--json"}, without);
  EXPECT_EQ(doctor.exit, 0) << doctor.err;
  const auto host = test::json_rows(doctor.out,
                                    "SELECT json_extract(value, '$.possible') || ' ' || "
                                    "json_extract(value, '$.reason') || ' ' || json_extract(value, "
                                    "'$.hint') FROM json_each(?1, '$.rungs') WHERE "
                                    "json_extract(value, '$.rung') = 'host'");
  ASSERT_EQ(host.size(), 1u) << doctor.out;
  EXPECT_TRUE(host[0].starts_with("0 ")) << host[0];
  EXPECT_NE(host[0].find(name), std::string::npos) << host[0];
}

INSTANTIATE_TEST_SUITE_P(
    Each, WithoutCapability,
    testing::Values(std::pair(CAP_BPF, "CAP_BPF"), std::pair(CAP_PERFMON, "CAP_PERFMON"),
                    std::pair(CAP_SYS_PTRACE, "CAP_SYS_PTRACE"),
                    std::pair(CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"),
                    std::pair(CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE")),
    [](const auto& info) { return std::string(info.param.second); });

TEST(Cli, DoctorReadsPtraceScopeFromAnotherRoot) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() + "/proc/sys/kernel/yama");
  write(folder.path() + "/proc/sys/kernel/yama/ptrace_scope", "3\n");
  const Outcome doctor = rung({"doctor", "--json", "--root", folder.path()});
  EXPECT_EQ(doctor.exit, 0) << doctor.err;
  const auto state =
      test::json_rows(doctor.out,
                      "SELECT json_extract(value, '$.possible') || ' ' || "
                      "json_extract(value, '$.reason') FROM json_each(?1, '$.rungs') "
                      "WHERE json_extract(value, '$.rung') = 'state'");
  ASSERT_EQ(state.size(), 1u);
  EXPECT_TRUE(state[0].starts_with("0 ")) << state[0];
}

TEST(Cli, DoctorOfAMissingProcess) {
  expect_complaint(rung({"doctor", "--pid", "4194303"}), 66, {"4194303"});
}

}  // namespace
}  // namespace rung
