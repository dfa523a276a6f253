// The probed functions as the eBPF programs know them: a number and a row each.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bpf/host_probes.h"
#include "vocab/calls.h"

namespace rung {

enum class ProbedLibrary : std::uint8_t { kCuda, kNccl, kCanary };

struct ProbedFunction {
  std::string_view name;
  ProbedLibrary library = ProbedLibrary::kCuda;
  rung_function row{};
};

// By function number. Row 0 is the canary's function, which counts as a launch.
std::span<const ProbedFunction> function_table();

// The kernel launches proper: what the governor may take off.
bool is_launch(const ProbedFunction& function);

// Functions that a training loop calls all the time: never probed at the single-stepped price.
bool is_hot(const ProbedFunction& function);

// Rows of the layout table: number -> offsets. Row 0 is empty.
std::vector<rung_comm_layout> layout_table();

// The row for an NCCL release ("2.28.9"), 0 when there is none. `numbered` false: the row that
// identifies communicators but reads no sequence numbers.
std::uint32_t layout_number(std::string_view version, bool numbered);

}  // namespace rung
