// WorkFolder: a temporary folder that is removed at the end.
#pragma once

#include <string>

#include "base/result.h"

namespace rung::cli {

class WorkFolder {
 public:
  WorkFolder() = default;
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  // Makes "$TMPDIR/NAME.XXXXXX" (or below /tmp), readable by its owner alone.
  Result<void> make(const std::string& name);
  const std::string& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  std::string path_;
  bool keep_ = false;
};

}  // namespace rung::cli
