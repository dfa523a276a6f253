// Whole recordings of unknown origin.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "store/recording.h"

namespace {

// A file of this process alone, in memory where the system has such a place.
const std::string& input_path() {
  static const std::string kPath =
      std::string(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + "/rung-fuzz-" +
      std::to_string(::getpid());
  static const bool kRegistered = std::atexit([] { ::unlink(kPath.c_str()); }) == 0;
  static_cast<void>(kRegistered);
  return kPath;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::FILE* file = std::fopen(input_path().c_str(), "wb");
  if (file == nullptr) std::abort();
  if (std::fwrite(data, 1, size, file) != size) std::abort();
  std::fclose(file);
  auto reader = rung::RecordingReader::open(input_path());
  if (!reader) return 0;
  rung::RecordedTick tick;
  while (true) {
    const auto more = (*reader)->next_tick(tick);
    if (!more || !*more) return 0;
  }
}
