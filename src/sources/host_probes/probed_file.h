// ProbedFile: one library file with its probes, shared by every process that maps it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "model/coverage.h"
#include "model/ids.h"
#include "model/observation.h"
#include "sources/host_probes/elf_symbols.h"
#include "sources/host_probes/launch_governor.h"
#include "sources/host_probes/probe_link.h"
#include "sources/host_probes/probe_programs.h"

namespace rung {

class ProbedFile {
 public:
  struct Options {
    bool multi = true;
    bool long_nops = true;  // see classify_prologue
    double budget_share = 0;
    std::uint32_t link_id = 1;
    std::vector<std::pair<std::string, std::string>> accepted;  // build-id, NCCL release
  };

  // Reads the symbols of the file that `file` is open on and plans the probes; attaches nothing.
  // Errors: kBadInput.
  static Result<ProbedFile> plan(Fd file, LibraryKind kind, std::string path,
                                 const Options& options);

  // Attaches what is planned. On failure nothing stays.
  Result<void> attach(const ProbePrograms& programs);
  // Launch probes only; detaching never fails.
  Result<void> put_launches_on(const ProbePrograms& programs);
  void take_launches_off();

  bool has_functions() const { return !launches_.empty() || !others_.empty(); }
  std::size_t functions() const { return launches_.size() + others_.size(); }
  std::size_t links() const { return launch_links_.links.size() + other_links_.links.size(); }
  std::uint32_t link_id() const { return link_id_; }
  LibraryKind kind() const { return kind_; }
  const std::string& path() const { return path_; }
  const std::string& build_id() const { return build_id_; }
  bool foreign_architecture() const { return foreign_architecture_; }
  // An NCCL library whose ncclComm layout is known.
  bool layout_known() const { return layout_known_; }
  bool is_nccl() const { return kind_ != LibraryKind::kCuda; }
  // Hot functions left alone because each hit would be single-stepped.
  const std::vector<std::string>& single_stepped() const { return single_stepped_; }
  bool has_launches() const { return !launches_.empty(); }
  std::chrono::nanoseconds last_attach() const { return last_attach_; }
  std::chrono::nanoseconds last_detach() const { return last_detach_; }

  dev_t device = 0;
  ino_t inode = 0;
  std::set<ProcessKey> users;
  std::int64_t unused_since_mono = 0;
  LaunchGovernor governor;

 private:
  explicit ProbedFile(const Options& options)
      : governor(options.budget_share, options.multi),
        link_id_(options.link_id),
        multi_(options.multi) {}
  void plan_probes(const ElfFunctions& functions, const Options& options);
  std::string attach_path() const;
  int program_for(const ProbePrograms& programs) const;

  Fd file_;  // keeps the inode, wherever its name goes
  LibraryKind kind_ = LibraryKind::kCuda;
  std::string path_;
  std::string build_id_;
  std::uint32_t link_id_ = 0;
  bool multi_ = true;
  bool foreign_architecture_ = false;
  bool layout_known_ = false;
  std::vector<ProbeTarget> launches_;
  std::vector<ProbeTarget> others_;
  std::vector<std::string> single_stepped_;
  ProbeLinks launch_links_;
  ProbeLinks other_links_;
  std::chrono::nanoseconds last_attach_{};
  std::chrono::nanoseconds last_detach_{};
};

}  // namespace rung
