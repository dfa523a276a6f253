// The vendor worker: a helper process that makes NVML calls for the agent, because such a call may
// never return. It is this very program, started as `rung vendor-worker`.
#pragma once

#include <string>
#include <vector>

namespace rung {

// Runs until the other end of the socket closes. `args`: --fd K, a SOCK_SEQPACKET socket to the
// agent, and --device N, the NVML index to sample, or --enumerate. The library is
// libnvidia-ml.so.1, or what RUNG_NVML names. Gives 64 for wrong arguments, else it ends the
// process itself: the exit handlers of the vendor library may hang.
int vendor_worker_main(const std::vector<std::string>& args);

}  // namespace rung
