#include "agent/agent.h"

#include <event2/event.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <random>
#include <thread>

#include "agent/api.h"
#include "agent/client.h"
#include "agent/collector.h"
#include "agent/http_server.h"
#include "agent/judge.h"
#include "agent/recordings.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/host.h"
#include "base/log.h"
#include "base/version.h"

namespace rung {
namespace {

constexpr std::int64_t kTickNs = 1'000'000'000;
// A tick that begins this much after its time is counted as late.
constexpr std::int64_t kLateNs = 250'000'000;
// How long after a tick launch probes are governed again where that is needed.
constexpr std::int64_t kEarlyNs = 250'000'000;

timeval as_timeval(std::int64_t ns) { return {ns / 1'000'000'000, (ns % 1'000'000'000) / 1000}; }

double own_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::uint64_t own_resident_bytes() {
  unsigned long long total = 0;
  unsigned long long resident = 0;
  const Result<std::string> text = read_file("/proc/self/statm", 256);
  if (!text || std::sscanf(text->c_str(), "%llu %llu", &total, &resident) != 2) return 0;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Result<void> make_folder_of(const std::string& file) {
  const std::string folder = file.substr(0, file.rfind('/'));
  if (folder.empty() || folder == file) return {};
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return fail_errno(errno, "cannot make the folder " + folder, "see the key 'socket'");
  }
  return {};
}

// Held while the agent lives, so that two agents cannot both find a dead socket and replace it. A
// helper that was just forked holds it a moment longer than an agent that was killed.
Result<Fd> lock_beside(const std::string& socket) {
  const std::string path = socket + ".lock";
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return fail_errno(errno, "cannot open " + path, "run as root, or set 'socket' in a config");
  }
  constexpr int kTries = 30;
  for (int i = 0; i < kTries; ++i) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
    if (ask_agent(socket, "/v1/status")) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return fail(ErrorCode::kUnavailable, "another agent holds " + path,
              "stop it, or give this one another 'socket' in its config");
}

}  // namespace

struct Agent::Impl {
  AgentConfig config;
  std::unique_ptr<event_base, decltype(&event_base_free)> base{nullptr, event_base_free};
  std::vector<event*> events;
  Fd lock;
  std::unique_ptr<Collector> collector;
  Judge judge;
  std::unique_ptr<Recordings> recordings;
  std::unique_ptr<Api> api;
  std::unique_ptr<HttpServer> local;
  std::unique_ptr<HttpServer> prometheus;
  event* tick_event = nullptr;
  event* early_event = nullptr;
  std::int64_t next_tick_mono = 0;
  AgentHealth health;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    local.reset();
    prometheus.reset();
    for (event* each : events) event_free(each);
  }

  Result<void> open(const std::string& executable);
  Result<void> serve();
  bool watch(int fd, short what, event_callback_fn callback);
  void schedule(std::int64_t now_mono);
  void tick();
  void log_new_verdicts(const std::vector<Verdict>& before) const;
  AgentHealth health_now() const;
};

bool Agent::Impl::watch(int fd, short what, event_callback_fn callback) {
  event* added = event_new(base.get(), fd, what, callback, this);
  if (added == nullptr) return false;
  events.push_back(added);
  return event_add(added, nullptr) == 0;
}

Result<void> Agent::Impl::open(const std::string& executable) {
  base.reset(event_base_new());
  if (base == nullptr) return fail(ErrorCode::kInternal, "cannot make an event loop");
  if (const auto made = make_folder_of(config.socket); !made) return made;
  Result<Fd> held = lock_beside(config.socket);
  if (!held) return tl::unexpected<Error>(held.error());
  lock = std::move(*held);
  if (::mkdir(config.state_dir.c_str(), 0755) != 0 && errno != EEXIST) {
    return fail_errno(errno, "cannot make the folder " + config.state_dir,
                      "see the key 'state_dir'");
  }
  recordings = std::make_unique<Recordings>(config.state_dir + "/recordings");
  if (const auto serving = serve(); !serving) return serving;
  collector = std::make_unique<Collector>(config, executable);
  health.version = kVersion;
  health.pid = ::getpid();
  health.host = host_name();
  health.started = unix_ns(unix_now_ns());
  return {};
}

Result<void> Agent::Impl::serve() {
  api = std::make_unique<Api>(
      Api::Parts{judge, *recordings, [this] { return health_now(); },
                 [this]() -> const std::vector<DeviceSample>& { return collector->devices(); },
                 [] { return unix_ns(unix_now_ns()); }});
  auto opened = HttpServer::local(base.get(), config.socket, [this](const HttpRequest& request) {
    return api->local(request);
  });
  if (!opened) return tl::unexpected<Error>(opened.error());
  local = std::move(*opened);
  if (config.prometheus_listen.empty()) return {};
  auto page = HttpServer::tcp(base.get(), config.prometheus_listen,
                              [this](const HttpRequest& request) { return api->metrics(request); });
  if (!page) return tl::unexpected<Error>(page.error());
  prometheus = std::move(*page);
  return {};
}

AgentHealth Agent::Impl::health_now() const {
  AgentHealth out = health;
  out.cpu_seconds = own_cpu_seconds();
  out.resident_bytes = own_resident_bytes();
  collector->fill(out);
  return out;
}

void Agent::Impl::schedule(std::int64_t now_mono) {
  // Skips ticks that could not be held instead of running after them.
  do {
    next_tick_mono += kTickNs;
  } while (next_tick_mono <= now_mono);
  const timeval wait = as_timeval(next_tick_mono - now_mono);
  event_add(tick_event, &wait);
}

void Agent::Impl::tick() {
  const std::int64_t begun = mono_now_ns();
  const std::int64_t late = begun - next_tick_mono;
  const UnixNs now = unix_ns(unix_now_ns());
  std::vector<Observation> observations = collector->tick(now, judge.views());
  if (late > kLateNs) {
    ++health.ticks_late;
    observations.push_back(
        {Origin{Source::kAgent, Rung::kFleet, ProcessKey{}, now, 0},
         HealthEvent{HealthEvent::Kind::kTickLate, static_cast<double>(late) / 1e6, "agent"}});
  }
  const std::vector<Verdict> before = judge.verdicts();
  for (const Observation& observation : observations) judge.absorb(observation);
  judge.tick(now);
  log_new_verdicts(before);
  recordings->tick(now, observations, judge);
  health.observations += observations.size();
  ++health.ticks;
  const std::int64_t ended = mono_now_ns();
  health.last_tick_ms = static_cast<double>(ended - begun) / 1e6;
  schedule(ended);
  if (collector->governs_early()) {
    const timeval wait = as_timeval(kEarlyNs);
    event_add(early_event, &wait);
  }
}

void Agent::Impl::log_new_verdicts(const std::vector<Verdict>& before) const {
  for (const Verdict& verdict : judge.verdicts()) {
    bool old = false;
    for (const Verdict& known : before) {
      old = old || (known.kind == verdict.kind && known.job == verdict.job &&
                    known.ranks == verdict.ranks);
    }
    if (!old) {
      spdlog::info("{} {} ranks [{}]: {}", verdict.job.text, verdict.kind, verdict.ranks.text(),
                   verdict.summary);
    }
  }
}

Agent::Agent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Agent::~Agent() = default;

Result<std::unique_ptr<Agent>> Agent::create(const AgentConfig& config,
                                             const std::string& executable) {
  auto impl = std::make_unique<Impl>();
  impl->config = config;
  spdlog::set_level(spdlog::level::from_str(config.log_level));
  if (const auto opened = impl->open(executable); !opened) {
    return tl::unexpected<Error>(opened.error());
  }
  return std::unique_ptr<Agent>(new Agent(std::move(impl)));
}

int Agent::run() {
  Impl& self = *impl_;
  const auto stop = [](evutil_socket_t, short, void* pointer) {
    event_base_loopbreak(static_cast<Impl*>(pointer)->base.get());
  };
  const auto on_tick = [](evutil_socket_t, short, void* pointer) {
    static_cast<Impl*>(pointer)->tick();
  };
  const auto on_records = [](evutil_socket_t, short, void* pointer) {
    static_cast<Impl*>(pointer)->collector->drain_early(unix_ns(unix_now_ns()));
  };
  self.watch(SIGTERM, EV_SIGNAL | EV_PERSIST, stop);
  self.watch(SIGINT, EV_SIGNAL | EV_PERSIST, stop);
  // Edge-triggered: records that came without a wake-up would keep a level-triggered event ready.
  if (self.collector->event_fd() >= 0) {
    self.watch(self.collector->event_fd(), EV_READ | EV_PERSIST | EV_ET, on_records);
  }
  self.tick_event = event_new(self.base.get(), -1, 0, on_tick, &self);
  self.events.push_back(self.tick_event);
  const auto on_early = [](evutil_socket_t, short, void* pointer) {
    static_cast<Impl*>(pointer)->collector->govern_early(unix_ns(unix_now_ns()));
  };
  self.early_event = event_new(self.base.get(), -1, 0, on_early, &self);
  self.events.push_back(self.early_event);
  // The agents of a cluster must not all look at the same moment.
  std::random_device random;
  const std::int64_t phase = std::uniform_int_distribution<std::int64_t>(0, kTickNs - 1)(random);
  self.next_tick_mono = mono_now_ns() + phase - kTickNs;
  self.schedule(mono_now_ns());
  spdlog::info("rung {} watches this node; socket {}, host probes {}", kVersion, self.config.socket,
               self.collector->host_rung());
  event_base_dispatch(self.base.get());
  spdlog::info("rung stops");
  return 0;
}

}  // namespace rung
