#include "sources/nvml/vendor_worker.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/strings.h"
#include "sources/nvml/device_reader.h"
#include "sources/nvml/library.h"
#include "sources/nvml/wire.h"

namespace rung {
namespace {

constexpr int kUsageExit = 64;

struct Arguments {
  int fd = -1;
  int device = -1;  // -1: enumerate
};

std::optional<Arguments> parse(const std::vector<std::string>& args) {
  Arguments out;
  bool enumerate = false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--enumerate") {
      enumerate = true;
      continue;
    }
    const auto number = i + 1 < args.size() ? parse_number<int>(args[i + 1]) : std::nullopt;
    if (!number || *number < 0) return std::nullopt;
    if (args[i] == "--fd") {
      out.fd = *number;
    } else if (args[i] == "--device") {
      out.device = *number;
    } else {
      return std::nullopt;
    }
    ++i;
  }
  if (out.fd < 0 || enumerate == (out.device >= 0)) return std::nullopt;
  return out;
}

class Worker {
 public:
  explicit Worker(int device) : device_(device) {}

  // Makes the vendor calls that answer a request. Any of them may never return.
  void answer(vendor::Answer* answer) {
    nvml::Failure failure;
    if (library_ == nullptr) {
      const char* path = std::getenv("RUNG_NVML");
      library_ = nvml::NvmlLibrary::load(path != nullptr ? path : "libnvidia-ml.so.1", &failure);
    }
    const bool done = library_ != nullptr && fill(answer, &failure);
    if (done) return;
    answer->status = failure.status;
    answer->code = failure.code;
    vendor::put(&answer->detail, printable(failure.detail, answer->detail.size() - 1));
  }

 private:
  bool fill(vendor::Answer* answer, nvml::Failure* failure) {
    answer->simulated = library_->simulated() ? 1 : 0;
    if (device_ < 0) {
      const auto uuids = library_->enumerate(failure);
      if (!uuids) return false;
      answer->device_count = static_cast<std::uint32_t>(uuids->size());
      for (std::size_t i = 0; i < uuids->size(); ++i) {
        vendor::put(&answer->devices[i].uuid, (*uuids)[i]);
      }
      return true;
    }
    if (reader_ == nullptr) reader_ = std::make_unique<nvml::DeviceReader>(*library_, device_);
    const auto sample = reader_->read(failure);
    if (sample) answer->sample = vendor::to_wire(*sample);
    return sample.has_value();
  }

  int device_;
  std::unique_ptr<nvml::NvmlLibrary> library_;
  std::unique_ptr<nvml::DeviceReader> reader_;
};

}  // namespace

int vendor_worker_main(const std::vector<std::string>& args) {
  const auto arguments = parse(args);
  if (!arguments) return kUsageExit;
  // A worker that the driver holds must not outlive its agent; one that waits sees the socket end.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_IGN);  // an interrupt from the terminal is for the agent
  std::signal(SIGPIPE, SIG_IGN);
  const Fd socket(arguments->fd);
  Worker worker(arguments->device);
  while (true) {
    vendor::Request request;
    const ssize_t got = ::recv(socket.get(), &request, sizeof request, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof request) || request.version != vendor::kVersion) break;
    const auto answer = std::make_unique<vendor::Answer>();
    answer->ask = request.ask;
    answer->number = request.number;
    worker.answer(answer.get());
    if (::send(socket.get(), answer.get(), sizeof *answer, 0) < 0) break;
    if (answer->status != vendor::Status::kOk) break;
  }
  // The library's own exit handlers are vendor code too, and may never return.
  ::_exit(0);
}

}  // namespace rung
