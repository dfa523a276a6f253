#include "sources/host_probes/probed_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "abi/nccl_layout.h"
#include "base/clock.h"
#include "sources/host_probes/function_table.h"
#include "sources/host_probes/prologue.h"

namespace rung {
namespace {

std::string_view release_of(std::string_view build_id, const ProbedFile::Options& options) {
  for (const auto& [accepted, release] : options.accepted) {
    if (accepted == build_id) return release;
  }
  for (const abi::AcceptedNccl& accepted : abi::kAcceptedNccl) {
    if (accepted.build_id == build_id) return accepted.version;
  }
  return {};
}

// The names of one library, with "" for functions of others, so that positions are numbers of the
// function table.
std::vector<std::string_view> names_of(ProbedLibrary library) {
  std::vector<std::string_view> names;
  for (const ProbedFunction& function : function_table()) {
    names.push_back(function.library == library ? function.name : std::string_view());
  }
  return names;
}

bool has_both_group_ends(const ElfFunctions& functions, bool long_nops) {
  bool start = false, end = false;
  for (const ElfFunction& function : functions.found) {
    const auto point = classify_prologue({function.code.data(), function.code_bytes}, long_nops);
    if (point.prologue == PrologueClass::kSingleStepped) continue;
    const std::string_view name = function_table()[function.wanted].name;
    start = start || name == "ncclGroupStart";
    end = end || name == "ncclGroupEnd";
  }
  return start && end;
}

}  // namespace

Result<ProbedFile> ProbedFile::plan(Fd file, LibraryKind kind, std::string path,
                                    const Options& options) {
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kBadInput, path + " is not a regular file");
  }
  const bool cuda = kind == LibraryKind::kCuda;
  auto functions =
      find_functions(file.get(), names_of(cuda ? ProbedLibrary::kCuda : ProbedLibrary::kNccl));
  if (!functions) return tl::unexpected(functions.error());
  ProbedFile out(options);
  out.file_ = std::move(file);
  out.kind_ = kind;
  out.path_ = std::move(path);
  out.device = info.st_dev;
  out.inode = info.st_ino;
  out.build_id_ = functions->build_id;
  out.foreign_architecture_ = functions->foreign_architecture;
  if (!out.foreign_architecture_) out.plan_probes(*functions, options);
  return out;
}

void ProbedFile::plan_probes(const ElfFunctions& functions, const Options& options) {
  std::uint32_t layout = 0;
  if (is_nccl()) {
    layout = layout_number(release_of(build_id_, options),
                           has_both_group_ends(functions, options.long_nops));
    layout_known_ = layout != 0;
  }
  for (const ElfFunction& found : functions.found) {
    const ProbedFunction& function = function_table()[found.wanted];
    const auto point = classify_prologue({found.code.data(), found.code_bytes}, options.long_nops);
    if (point.prologue == PrologueClass::kUnreadable) continue;
    if (point.prologue == PrologueClass::kSingleStepped && is_hot(function)) {
      single_stepped_.emplace_back(function.name);
      continue;
    }
    const ProbeTarget target{found.file_offset + point.skip,
                             RUNG_COOKIE(found.wanted, layout, link_id_)};
    (is_launch(function) ? launches_ : others_).push_back(target);
  }
}

// Through our own descriptor: the path that the process knows may be gone or mean another file.
std::string ProbedFile::attach_path() const { return fmt::format("/proc/self/fd/{}", file_.get()); }

int ProbedFile::program_for(const ProbePrograms& programs) const {
  return is_nccl() ? programs.nccl_program() : programs.cuda_program();
}

Result<void> ProbedFile::attach(const ProbePrograms& programs) {
  const std::int64_t begin = mono_now_ns();
  auto others = attach_probes(program_for(programs), multi_, attach_path(), others_);
  if (!others) return tl::unexpected(others.error());
  other_links_ = std::move(*others);
  auto launches = put_launches_on(programs);
  if (!launches) {
    other_links_.links.clear();
    return launches;
  }
  last_attach_ = std::chrono::nanoseconds(mono_now_ns() - begin);
  return {};
}

Result<void> ProbedFile::put_launches_on(const ProbePrograms& programs) {
  const std::int64_t begin = mono_now_ns();
  auto launches = attach_probes(program_for(programs), multi_, attach_path(), launches_);
  if (!launches) return tl::unexpected(launches.error());
  launch_links_ = std::move(*launches);
  last_attach_ = std::chrono::nanoseconds(mono_now_ns() - begin);
  return {};
}

void ProbedFile::take_launches_off() {
  const std::int64_t begin = mono_now_ns();
  launch_links_.links.clear();
  last_detach_ = std::chrono::nanoseconds(mono_now_ns() - begin);
}

}  // namespace rung
