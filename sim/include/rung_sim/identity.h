// What the simulated libraries call themselves, so that a config or a test can accept them.
#pragma once

namespace rung::sim {

// Build-id of the simulated libnccl.so.2: the ASCII text "simulated-nccl2.28.9" in hex. Its
// communicators have the layout of NCCL 2.28.9.
inline constexpr const char* kNcclBuildId = "73696d756c617465642d6e63636c322e32382e39";
inline constexpr int kNcclVersionCode = 22809;
inline constexpr const char* kNcclVersion = "2.28.9";

// cuDriverGetVersion of the simulated libcuda.so.1: CUDA 13.0.
inline constexpr int kCudaDriverVersion = 13000;
inline constexpr const char* kDriverVersion = "580.159.04-simulated";
inline constexpr const char* kDeviceName = "NVIDIA H200 (simulated)";

}  // namespace rung::sim
