// Small looks at a process through /proc and process_vm_readv.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rung {

// Field 22 of /proc/PID/stat, or nothing when the process is gone.
std::optional<std::uint64_t> start_ticks_of(const std::string& proc_root, int pid);

// 'R', 'S', 'D'... of a thread; nothing when it is gone.
std::optional<char> thread_state_of(const std::string& proc_root, int pid, int tid);

// Copies memory of a process; false unless all of it could be read.
bool read_process_memory(int pid, std::uint64_t address, void* out, std::size_t bytes);

}  // namespace rung
