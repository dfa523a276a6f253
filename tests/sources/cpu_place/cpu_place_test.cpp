#include "sources/cpu_place/cpu_place.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <thread>

namespace rung {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

volatile int never = 0;

// A child that runs `body`, which does not return; it is ready once body has called its argument.
class Child {
 public:
  using Body = std::function<void(const std::function<void()>& ready)>;
  explicit Child(const Body& body) {
    int pipe[2];
    if (::pipe(pipe) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      body([&] {
        if (::write(pipe[1], "", 1) != 1) ::_exit(1);
      });
      ::_exit(1);
    }
    ::close(pipe[1]);
    char done = 0;
    ready_ = ::read(pipe[0], &done, 1) == 1;
    ::close(pipe[0]);
  }
  ~Child() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }
  bool ready() const { return ready_; }

 private:
  pid_t pid_ = -1;
  bool ready_ = false;
};

class CpuPlaceTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rung_place_XXXXXX";
    folder_ = ::mkdtemp(name);
    library_ = folder_ + "/libcuda.so.1";
    fs::copy_file(RUNG_LOOKALIKE, library_);
    const auto self = CpuPlaceSampler::start(::getpid(), {::getpid()}, 1ms);
    if (!self && self.error().code == ErrorCode::kNoPermission) {
      GTEST_SKIP() << self.error().message << "; " << self.error().hint;
    }
    ASSERT_TRUE(self) << self.error().message;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The child calls this function of the library.
  Child::Body in_library(const char* function) {
    return [this, function](const auto& ready) {
      void* library = ::dlopen(library_.c_str(), RTLD_NOW);
      if (library == nullptr) ::_exit(1);
      const auto run = reinterpret_cast<void (*)(const volatile int*)>(::dlsym(library, function));
      ready();
      if (run != nullptr) run(&never);
    };
  }

  // The sum of as many windows as it takes to see something: a busy machine gives little CPU.
  static CpuPlace sample(pid_t pid) {
    CpuPlace sum;
    for (int i = 0; i < 100 && sum.samples < 4; ++i) {
      auto sampler = CpuPlaceSampler::start(pid, {pid}, 300ms);
      if (!sampler) break;
      while (!(*sampler)->done()) std::this_thread::sleep_for(5ms);
      const CpuPlace place = (*sampler)->finish();
      EXPECT_EQ(place.window, 300ms);
      sum.samples += place.samples;
      sum.in_cuda += place.in_cuda;
    }
    return sum;
  }

  std::string folder_;
  std::string library_;
};

TEST_F(CpuPlaceTest, SpinningInTheLibraryIsInCuda) {
  const Child child(in_library("lookalike_spin"));
  ASSERT_TRUE(child.ready());
  const CpuPlace place = sample(child.pid());
  EXPECT_GE(place.samples, 4u);
  EXPECT_EQ(place.in_cuda, place.samples);
}

TEST_F(CpuPlaceTest, YieldingOnBehalfOfTheLibraryIsInCuda) {
  const Child child(in_library("lookalike_yield"));
  ASSERT_TRUE(child.ready());
  const CpuPlace place = sample(child.pid());
  EXPECT_GE(place.samples, 4u);
  EXPECT_EQ(place.in_cuda, place.samples);
}

TEST_F(CpuPlaceTest, SpinningElsewhereIsNot) {
  const Child child([this](const auto& ready) {
    if (::dlopen(library_.c_str(), RTLD_NOW) == nullptr) ::_exit(1);
    ready();
    while (never == 0) {
    }
  });
  ASSERT_TRUE(child.ready());
  const CpuPlace place = sample(child.pid());
  EXPECT_GE(place.samples, 4u);
  EXPECT_EQ(place.in_cuda, 0u);
}

TEST_F(CpuPlaceTest, YieldingElsewhereIsNot) {
  const Child child([this](const auto& ready) {
    if (::dlopen(library_.c_str(), RTLD_NOW) == nullptr) ::_exit(1);
    ready();
    while (never == 0) ::sched_yield();
  });
  ASSERT_TRUE(child.ready());
  const CpuPlace place = sample(child.pid());
  EXPECT_GE(place.samples, 4u);
  EXPECT_EQ(place.in_cuda, 0u);
}

TEST_F(CpuPlaceTest, ASleepingProcessUsesNoCpu) {
  const Child child([](const auto& ready) {
    ready();
    ::pause();
  });
  ASSERT_TRUE(child.ready());
  auto sampler = CpuPlaceSampler::start(child.pid(), {child.pid()}, 50ms);
  ASSERT_TRUE(sampler);
  while (!(*sampler)->done()) std::this_thread::sleep_for(5ms);
  EXPECT_LE((*sampler)->finish().samples, 1u);  // it may still have been on its way to sleep
}

TEST_F(CpuPlaceTest, ThreadsThatAreGoneAreLeftOut) {
  Child child(in_library("lookalike_spin"));
  Child gone([](const auto&) { ::_exit(0); });
  const pid_t no_thread = gone.pid();
  gone.end();
  auto sampler = CpuPlaceSampler::start(child.pid(), {no_thread, child.pid()}, 10s);
  ASSERT_TRUE(sampler) << sampler.error().message;
  child.end();  // and one that ends while it is sampled
  const CpuPlace place = (*sampler)->finish();
  EXPECT_LT(place.window, 10s);
  EXPECT_LE(place.in_cuda, place.samples);
}

TEST_F(CpuPlaceTest, AProcessThatIsGoneIsAnError) {
  Child child([](const auto&) { ::_exit(0); });
  const pid_t pid = child.pid();
  child.end();
  const auto sampler = CpuPlaceSampler::start(pid, {pid}, 1s);
  ASSERT_FALSE(sampler);
  EXPECT_EQ(sampler.error().code, ErrorCode::kNotFound);
  const auto no_threads = CpuPlaceSampler::start(::getpid(), {}, 1s);
  ASSERT_FALSE(no_threads);
  EXPECT_EQ(no_threads.error().code, ErrorCode::kNotFound);
}

TEST_F(CpuPlaceTest, ManyThreadsAreBounded) {
  const std::vector<pid_t> tids(1000, ::getpid());
  auto sampler = CpuPlaceSampler::start(::getpid(), tids, 1ms);
  ASSERT_TRUE(sampler) << sampler.error().message;
  EXPECT_LE((*sampler)->finish().samples, 1000u);
}

}  // namespace
}  // namespace rung
