// Where the fields that we read lie inside ncclComm, by NCCL release (x86-64 Linux, CUDA 13
// headers).
//
// Computed by compiling each release's own headers; 2.28.9 was also confirmed from the DWARF of the
// library that PyTorch ships. commHash u64, rank i32 and nRanks i32 follow one another at
// `identity`. seqNumber counts launched, non-captured collectives per function: since 2.26 always,
// before only with a profiler plugin, so only from there on it gives an index.
#pragma once

#include <cstdint>
#include <string_view>

namespace rung::abi {

struct NcclLayout {
  std::string_view version;
  std::uint32_t identity;    // commHash
  std::uint32_t init_state;  // ncclResult_t: 7 while init runs, 0 when it is done
  std::uint32_t sequence;    // seqNumber[5]
  std::uint32_t size;        // sizeof(ncclComm); endMagic is its last 8 bytes
  bool numbered;             // seqNumber always advances
};

inline constexpr NcclLayout kNcclLayouts[] = {
    {"2.23.4", 246944, 252512, 252568, 253152, false},
    {"2.24.3", 246944, 252480, 252536, 252624, false},
    {"2.25.1", 492704, 500928, 500984, 501072, false},
    {"2.26.2", 492720, 500952, 501008, 506752, true},
    {"2.26.5", 492720, 500952, 501008, 506752, true},
    {"2.26.6", 492720, 500952, 501008, 506752, true},
    {"2.27.3", 1066160, 1074456, 1074512, 1080320, true},
    {"2.27.5", 1066160, 1074456, 1074512, 1080320, true},
    {"2.27.6", 1066160, 1074456, 1074512, 1080320, true},
    {"2.27.7", 1066160, 1074456, 1074512, 1080320, true},
    {"2.28.3", 1066176, 1075664, 1075720, 1081816, true},
    {"2.28.7", 1066184, 1075672, 1075728, 1082968, true},
    {"2.28.9", 1066184, 1075672, 1075728, 1082968, true},
    {"2.29.2", 1066704, 1076800, 1076856, 1084808, true},
    {"2.29.3", 1066704, 1076800, 1076856, 1084808, true},
    {"2.29.7", 1181392, 1191488, 1191544, 1199592, true},
    {"2.30.3", 1181400, 1191504, 1191560, 1199728, true},
    {"2.30.4", 1181400, 1191504, 1191560, 1199728, true},
    {"2.30.7", 1181416, 1191520, 1191576, 1199744, true},
};

// Libraries, by GNU build-id, that are known to have the layout named beside them.
struct AcceptedNccl {
  std::string_view build_id;
  std::string_view version;
};
inline constexpr AcceptedNccl kAcceptedNccl[] = {
    // nvidia-nccl-cu13 2.28.9 as in the PyTorch 2.11 wheel and the CUDA 13.0 toolkit
    {"9fcf74d93a8c3605bf7718f594d0a24366e38536", "2.28.9"},
};

}  // namespace rung::abi
