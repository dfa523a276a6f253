// /proc/PID/environ, which the process chooses, and the claims in it.
#include <string_view>

#include "model/limits.h"
#include "sources/procfs/parse.h"
#include "sources/scheduler/identity.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto env = rung::parse_environ(text, rung::identity_env_keys());
  if (env.size() > rung::identity_env_keys().size()) __builtin_trap();
  for (const bool in_slurm : {false, true}) {
    const rung::RankClaim claim = rung::rank_claim(env, in_slurm);
    if (claim.rank &&
        (*claim.rank < 0 || claim.world_size.value_or(*claim.rank + 1) <= *claim.rank ||
         *claim.rank >= static_cast<int>(rung::limits::kRanksPerJob))) {
      __builtin_trap();
    }
  }
  return 0;
}
