#include "sources/procfs/procfs.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/files.h"

namespace rung {
namespace {

namespace fs = std::filesystem;

class TempFolder {
 public:
  TempFolder() {
    char name[] = "/tmp/rung_procfs_XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TempFolder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A child that runs `body` and then waits to be killed; it tells through a pipe when body is done.
class Child {
 public:
  explicit Child(const std::function<void()>& body) {
    int ready[2];
    if (::pipe(ready) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      body();
      const char done = 1;
      if (::write(ready[1], &done, 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    ::close(ready[1]);
    char done = 0;
    EXPECT_EQ(::read(ready[0], &done, 1), 1);
    ::close(ready[0]);
  }
  ~Child() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

TEST(ProcFsSelf, SeesThisProcess) {
  const ProcFs procfs;
  EXPECT_NE(procfs.boot(), 0u);
  const auto pids = procfs.list_pids();
  ASSERT_TRUE(pids);
  EXPECT_TRUE(std::find(pids->begin(), pids->end(), ::getpid()) != pids->end());
  const auto stat = procfs.stat(::getpid());
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->ppid, ::getppid());
  const auto status = procfs.status(::getpid());
  ASSERT_TRUE(status);
  EXPECT_EQ(status->uid, ::geteuid());
  EXPECT_EQ(procfs.exe(::getpid()).value(), fs::read_symlink("/proc/self/exe").string());
  EXPECT_FALSE(procfs.cgroup(::getpid()).value().empty());
}

TEST(ProcFsSelf, SamplesThisProcess) {
  const ProcFs procfs;
  const auto tree = procfs.tree();
  ASSERT_TRUE(tree);
  const auto key = procfs.key(::getpid());
  ASSERT_TRUE(key);
  const auto sample = procfs.sample(*key, *tree);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->state, ProcessState::kRunning);
  EXPECT_GE(sample->threads, 1);
  EXPECT_GT(sample->resident_bytes, 0u);
  EXPECT_TRUE(sample->read_chars);
  EXPECT_EQ(sample->child_compilers, 0);
}

TEST(ProcFsSelf, AnotherProcessOfTheSamePidIsNotThisOne) {
  const ProcFs procfs;
  const auto tree = procfs.tree();
  ASSERT_TRUE(tree);
  ProcessKey key = procfs.key(::getpid()).value();
  EXPECT_TRUE(procfs.alive(key));
  ++key.start_ticks;
  EXPECT_FALSE(procfs.alive(key));
  const auto sample = procfs.sample(key, *tree);
  ASSERT_FALSE(sample);
  EXPECT_EQ(sample.error().code, ErrorCode::kNotFound);
}

TEST(ProcFsChild, StoppedAndZombieAndGone) {
  const ProcFs procfs;
  Child child([] {});
  const auto tree = procfs.tree();
  ASSERT_TRUE(tree);
  const ProcessKey key = procfs.key(child.pid()).value();
  ::kill(child.pid(), SIGSTOP);
  int status = 0;
  ::waitpid(child.pid(), &status, WUNTRACED);
  EXPECT_EQ(procfs.sample(key, *tree)->state, ProcessState::kStopped);
  ::kill(child.pid(), SIGKILL);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(procfs.sample(key, *tree)->state, ProcessState::kZombie);
  const pid_t pid = child.pid();
  child.end();
  EXPECT_FALSE(procfs.sample(key, *tree));
  EXPECT_EQ(procfs.stat(pid).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(procfs.mapped_libraries(pid));
  EXPECT_EQ(procfs.thread_state(pid, pid), '?');
}

TEST(ProcFsChild, AncestorsLeadToThisProcess) {
  const ProcFs procfs;
  Child child([] {});
  const auto tree = procfs.tree();
  ASSERT_TRUE(tree);
  const auto chain = procfs.ancestors(child.pid(), *tree);
  ASSERT_FALSE(chain.empty());
  EXPECT_EQ(chain[0].key, procfs.key(::getpid()).value());
  EXPECT_EQ(chain[0].uid, ::geteuid());
}

TEST(ProcessTreeOf, CountsCompilersOfAnyDepthAndSurvivesCycles) {
  ProcessTree tree;
  tree.add({10, 1, 1, 'S', "python3"});
  tree.add({11, 10, 2, 'S', "sh"});
  tree.add({12, 11, 3, 'R', "cc1plus"});
  tree.add({13, 10, 4, 'R', "ptxas"});
  tree.add({14, 10, 5, 'Z', "ptxas"});
  tree.add({15, 1, 6, 'R', "nvcc"});
  tree.add({20, 21, 7, 'R', "a"});
  tree.add({21, 20, 8, 'R', "ld"});
  EXPECT_EQ(tree.compilers_below(10), 2);
  EXPECT_EQ(tree.compilers_below(20), 1);
  EXPECT_EQ(tree.compilers_below(999), 0);
}

TEST(ProcFsRoot, ReadsAReplacedRoot) {
  const TempFolder root;
  write(root / "proc/sys/kernel/random/boot_id", "01020304-0506-0708-090a-0b0c0d0e0f10\n");
  write(root / "proc/42/stat", "42 (a) b) D 1 42 42 0 -1 0 0 0 0 0 7 3 0 0 20 0 2 0 500 0 10 0\n");
  write(root / "proc/42/task/42/stat",
        "42 (a) D 1 42 42 0 -1 0 0 0 0 0 7 3 0 0 20 0 2 0 500 0 10 0\n");
  write(root / "proc/42/task/43/stat", "hostile");
  write(root / "proc/42/wchan", "io_schedule");
  const ProcFs procfs(root.path());
  EXPECT_EQ(procfs.boot(), 0x0102030405060708u);
  const auto sample = procfs.sample({procfs.boot(), 42, 500}, ProcessTree{});
  ASSERT_TRUE(sample) << sample.error().message;
  EXPECT_EQ(sample->state, ProcessState::kDiskSleep);
  EXPECT_EQ(sample->threads, 2);
  EXPECT_EQ(sample->threads_disk_sleep, 1);
  EXPECT_EQ(sample->cpu_ns, 10 * (1'000'000'000 / ::sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(sample->wait_channel, "io_schedule");
  // No right to look at io is unknown, not zero.
  EXPECT_FALSE(sample->read_bytes);
  EXPECT_FALSE(sample->written_chars);
}

TEST(ProcFsRoot, NothingThere) {
  const ProcFs procfs("/nonexistent");
  EXPECT_EQ(procfs.boot(), 0u);
  EXPECT_FALSE(procfs.list_pids());
  EXPECT_FALSE(procfs.tree());
  EXPECT_FALSE(procfs.key(1));
}

// Libraries are told by name: copies of a look-alike stand for them.
class MappedLibraries : public testing::Test {
 protected:
  TempFolder folder_;
  std::string library_ = RUNG_LOOKALIKE;
  ProcFs procfs_;
};

TEST_F(MappedLibraries, FoundWithRangeBuildIdAndVersion) {
  const std::string cuda = folder_ / "libcuda.so.999.1.2";
  const std::string nccl = folder_ / "libnccl.so.2";
  fs::copy_file(library_, cuda);
  fs::copy_file(library_, nccl);
  Child child([&] {
    if (::dlopen(cuda.c_str(), RTLD_NOW) == nullptr) ::_exit(1);
    if (::dlopen(nccl.c_str(), RTLD_NOW) == nullptr) ::_exit(1);
  });
  const auto libraries = procfs_.mapped_libraries(child.pid());
  ASSERT_TRUE(libraries);
  ASSERT_EQ(libraries->size(), 2u);
  for (const MappedLibrary& library : *libraries) {
    struct stat facts;
    ASSERT_EQ(::stat(library.path.c_str(), &facts), 0);
    EXPECT_EQ(library.inode, facts.st_ino);
    const auto found = procfs_.fingerprint(child.pid(), library);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->fingerprint.build_id, "00112233445566778899aabbccddeeff00112233");
    EXPECT_TRUE(found->simulated);
    EXPECT_EQ(found->fingerprint.version,
              library.kind == LibraryKind::kNccl ? "2.28.9" : "999.1.2");
  }
}

TEST_F(MappedLibraries, StillFoundAfterTheFileIsDeleted) {
  const std::string cuda = folder_ / "libcuda.so.1";
  fs::copy_file(library_, cuda);
  Child child([&] {
    if (::dlopen(cuda.c_str(), RTLD_NOW) == nullptr) ::_exit(1);
  });
  fs::remove(cuda);
  write(cuda, "another file of that name");
  const auto libraries = procfs_.mapped_libraries(child.pid());
  ASSERT_TRUE(libraries);
  ASSERT_EQ(libraries->size(), 1u);
  EXPECT_TRUE((*libraries)[0].deleted);
  if (::geteuid() != 0) GTEST_SKIP() << "map_files needs CAP_CHECKPOINT_RESTORE";
  const auto found = procfs_.fingerprint(child.pid(), (*libraries)[0]);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->fingerprint.build_id, "00112233445566778899aabbccddeeff00112233");
}

TEST_F(MappedLibraries, NotFooledByAFifoOrAnotherFile) {
  MappedLibrary library;
  library.path = folder_ / "libcuda.so.1";
  library.inode = 1;
  ASSERT_EQ(::mkfifo(library.path.c_str(), 0600), 0);
  EXPECT_FALSE(procfs_.open_library(::getpid(), library));
  ::unlink(library.path.c_str());
  fs::copy_file(library_, library.path);
  EXPECT_FALSE(procfs_.open_library(::getpid(), library));  // right path, wrong inode
  struct stat facts;
  ASSERT_EQ(::stat(library.path.c_str(), &facts), 0);
  library.inode = facts.st_ino;
  EXPECT_TRUE(procfs_.open_library(::getpid(), library));  // falls back from map_files to the name
}

TEST_F(MappedLibraries, HostileFilesGiveErrors) {
  MappedLibrary library;
  library.path = folder_ / "libnccl.so.2";
  library.kind = LibraryKind::kNccl;
  const auto text = read_file(library_, 1 << 20);
  ASSERT_TRUE(text);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{20}, std::size_t{64},
                                  std::size_t{300}, text->size() / 2, text->size() - 8}) {
    write(library.path, text->substr(0, bytes));
    struct stat facts;
    ASSERT_EQ(::stat(library.path.c_str(), &facts), 0);
    library.inode = facts.st_ino;
    const auto found = procfs_.fingerprint(::getpid(), library);
    if (found) {
      EXPECT_LE(found->fingerprint.build_id.size(), 128u);
    }
  }
}

}  // namespace
}  // namespace rung
