// A program that is nothing but a vendor worker.
#include <string>
#include <vector>

#include "sources/nvml/vendor_worker.h"

int main(int argc, char** argv) {
  if (argc < 2 || std::string(argv[1]) != "vendor-worker") return 64;
  return rung::vendor_worker_main(std::vector<std::string>(argv + 2, argv + argc));
}
