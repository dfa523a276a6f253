// PlaceMap: tells from the memory map of a process in which kind of code an address lies.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rung {

class PlaceMap {
 public:
  enum class Place : std::uint8_t {
    kNowhere,  // no executable mapping
    kCuda,     // libcuda, libcudart, libnccl, the vDSO
    kLibc,     // libc and its loader: belongs to whoever called it
    kOther,
  };

  PlaceMap() = default;
  // `maps` is the text of /proc/PID/maps. Malformed lines are left out.
  explicit PlaceMap(std::string_view maps);

  bool empty() const { return ranges_.empty(); }
  Place at(std::uint64_t address) const;

  // Whether a thread is at work inside CUDA: its instruction pointer is there, or it is in libc and
  // the nearest return address below it, the first of `callers` that lies in executable code other
  // than libc, is there. `callers` are a link register, if any, and the words of the stack from
  // its top on.
  bool in_cuda(std::uint64_t instruction, const std::vector<std::uint64_t>& callers) const;

 private:
  struct Range {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    Place place = Place::kOther;
  };
  std::vector<Range> ranges_;  // ascending, do not overlap
};

}  // namespace rung
