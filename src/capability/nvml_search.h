// Finds the NVML library without loading it.
#pragma once

#include <optional>
#include <string>

namespace rung {

// The path of `library` ("" for libnvidia-ml.so.1) below `root` ("" or a folder): as it is when it
// holds a '/', else from LD_LIBRARY_PATH (only without a root), the loader's cache and the usual
// folders.
std::optional<std::string> find_nvml(const std::string& root, const std::string& library);

// The path of a library of this base name in the text of /etc/ld.so.cache; "" when there is none.
std::string path_in_loader_cache(const std::string& cache, const std::string& name);

}  // namespace rung
