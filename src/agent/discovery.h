// Discovery: finds the processes that use CUDA, says who they are, and notices when they go.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/observation.h"
#include "sources/procfs/procfs.h"
#include "sources/scheduler/identity.h"

namespace rung {

class Discovery {
 public:
  explicit Discovery(ProcFs& procfs) : procfs_(procfs) {}

  // Looks at /proc once. Appends a ProcessIdentity for each process that is new or changed, and a
  // ProcessExit (without code) for each that has gone.
  void scan(UnixNs now, std::vector<Observation>& out);

  // Hints from exec events: these processes are looked at in the next scan, however old.
  void hint(std::int32_t pid) { hints_.push_back(pid); }

  struct Found {
    ProcessKey key;
    Candidate candidate;
    ProcessIdentity identity;
  };
  const std::map<ProcessKey, Found>& processes() const { return found_; }
  const ProcessTree& tree() const { return tree_; }

 private:
  // A process that did not use CUDA when it was last looked at.
  struct Other {
    ProcessKey key;
    UnixNs first_seen{};
    UnixNs look_again{};
  };

  void forget_gone(UnixNs now, std::vector<Observation>& out);
  void look_at(std::int32_t pid, UnixNs now);
  bool take(const ProcessKey& key);
  void refresh_libraries(Found& found);
  void identify(UnixNs now, std::vector<Observation>& out);

  ProcFs& procfs_;
  IdentityTable identities_;
  ProcessTree tree_;
  UnixNs next_tree_{};
  std::map<ProcessKey, Found> found_;
  std::map<std::int32_t, Other> others_;
  std::vector<std::int32_t> hints_;
};

}  // namespace rung
