// rung-sim-rank: one rank of a simulated training job. Its place in the job comes from the
// environment that torchrun sets.
//
//   rung-sim-rank SCENARIO.toml
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/strings.h"
#include "fabric/fabric.h"
#include "rank/faults.h"
#include "rank/trainer.h"
#include "rung_sim/runner.h"

namespace rung::sim {
namespace {

constexpr std::int64_t kEndlessSteps = 100000;

std::int32_t number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  const auto number = parse_number<std::int32_t>(text == nullptr ? "" : text);
  if (number && *number >= 0) return *number;
  std::fprintf(stderr, "simulated rank: %s is not a number; start it through a Run\n", name);
  std::exit(64);
}

// What a c10d store does for PyTorch: rank 0 makes the id, the others wait for it.
ncclUniqueId exchange_unique_id(FabricHeader& header, std::int32_t rank) {
  ncclUniqueId id{};
  if (rank == 0) {
    if (ncclGetUniqueId(&id) != ncclSuccess) std::exit(1);
    std::memcpy(header.unique_id.data(), id.internal, sizeof id.internal);
    header.id_ready.store(1);
    futex_wake_all(header.id_ready);
    return id;
  }
  constexpr int kLookAgainMs = 1000;
  while (header.id_ready.load() == 0) futex_wait(header.id_ready, 0, kLookAgainMs);
  std::memcpy(id.internal, header.unique_id.data(), sizeof id.internal);
  return id;
}

int train(const Scenario& scenario, const std::string& folder) {
  const std::int32_t rank = number_from_environment("RANK");
  const std::int32_t local_rank = number_from_environment("LOCAL_RANK");
  Fabric* fabric = Fabric::instance();
  if (fabric == nullptr || rank >= scenario.world_size) {
    std::fprintf(stderr, "simulated rank: no fabric, or RANK outside the world\n");
    return 64;
  }
  RankBoard& board = fabric->header().ranks[static_cast<std::size_t>(rank)];
  board.pid = ::getpid();
  RankFaults faults(scenario, rank, folder, board);
  double checksum = 0;
  const std::int64_t steps = scenario.steps == 0 ? kEndlessSteps : scenario.steps;
  {
    // More ranks than devices share them.
    const std::int32_t device = local_rank % static_cast<std::int32_t>(kDevices);
    Trainer trainer(scenario, rank, device, faults);
    const ncclUniqueId id = exchange_unique_id(fabric->header(), rank);
    std::this_thread::sleep_for(std::chrono::duration<double>(scenario.startup_s));
    faults.before_init();
    trainer.connect(id);
    board.training_unix_ns = unix_now_ns();
    for (std::int64_t step = 0; step < steps; ++step) {
      checksum += trainer.step(step);
      board.steps_done = step + 1;
    }
  }
  std::printf("simulated rank %d steps %lld loss %.6f\n", rank, static_cast<long long>(steps),
              checksum / static_cast<double>(steps));
  return 0;
}

}  // namespace
}  // namespace rung::sim

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: rung-sim-rank SCENARIO.toml\n");
    return 64;
  }
  auto scenario = rung::sim::load_scenario(argv[1]);
  if (!scenario) {
    std::fprintf(stderr, "simulated rank: %s\n", scenario.error().message.c_str());
    return rung::exit_code(scenario.error().code);
  }
  const std::string path = argv[1];
  const std::size_t slash = path.rfind('/');
  return rung::sim::train(*scenario, slash == path.npos ? "." : path.substr(0, slash));
}
