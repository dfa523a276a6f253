#include "sources/host_probes/probe_link.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/files.h"
#include "base/strings.h"

namespace rung {
namespace {

// The part of union bpf_attr that BPF_LINK_CREATE of a multi-uprobe takes (linux/bpf.h of 6.6);
// older headers lack it.
struct MultiLinkAttributes {
  std::uint32_t program_fd = 0;
  std::uint32_t target_fd = 0;
  std::uint32_t attach_type = kTraceUprobeMulti;
  std::uint32_t flags = 0;
  std::uint64_t path = 0;
  std::uint64_t offsets = 0;
  std::uint64_t ref_ctr_offsets = 0;
  std::uint64_t cookies = 0;
  std::uint32_t count = 0;
  std::uint32_t multi_flags = 0;
  std::uint32_t pid = 0;  // 0: every process
  std::uint32_t pad = 0;
};
static_assert(sizeof(MultiLinkAttributes) == 64);

int create_multi_link(int program_fd, const char* path, const std::uint64_t* offsets,
                      const std::uint64_t* cookies, std::uint32_t count) {
  MultiLinkAttributes attributes;
  attributes.program_fd = static_cast<std::uint32_t>(program_fd);
  attributes.path = reinterpret_cast<std::uint64_t>(path);
  attributes.offsets = reinterpret_cast<std::uint64_t>(offsets);
  attributes.cookies = reinterpret_cast<std::uint64_t>(cookies);
  attributes.count = count;
  return static_cast<int>(syscall(SYS_bpf, BPF_LINK_CREATE, &attributes, sizeof attributes));
}

Fd attach_multi(int program_fd, const std::string& path, const std::vector<ProbeTarget>& targets) {
  std::vector<std::uint64_t> offsets, cookies;
  for (const ProbeTarget& target : targets) {
    offsets.push_back(target.file_offset);
    cookies.push_back(target.cookie);
  }
  return Fd(create_multi_link(program_fd, path.c_str(), offsets.data(), cookies.data(),
                              static_cast<std::uint32_t>(targets.size())));
}

std::optional<std::uint32_t> uprobe_event_type() {
  const auto text = read_file("/sys/bus/event_source/devices/uprobe/type", 16);
  return text ? parse_number<std::uint32_t>(trimmed(*text)) : std::nullopt;
}

Fd attach_perf(int program_fd, const std::string& path, const ProbeTarget& target) {
  const auto type = uprobe_event_type();
  if (!type) {
    errno = EOPNOTSUPP;
    return Fd();
  }
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = *type;
  attributes.uprobe_path = reinterpret_cast<std::uint64_t>(path.c_str());
  attributes.probe_offset = target.file_offset;
  const Fd event(
      static_cast<int>(syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)));
  if (!event.valid()) return Fd();
  bpf_link_create_opts options{};
  options.sz = sizeof options;
  options.perf_event.bpf_cookie = target.cookie;
  // The link keeps the event: its own descriptor may go.
  const int link = bpf_link_create(program_fd, event.get(), BPF_PERF_EVENT, &options);
  if (link < 0) errno = -link;
  return Fd(link);
}

}  // namespace

Result<ProbeLinks> attach_probes(int program_fd, bool multi, const std::string& path,
                                 const std::vector<ProbeTarget>& targets) {
  ProbeLinks out;
  if (targets.empty()) return out;
  if (multi) {
    Fd all = attach_multi(program_fd, path, targets);
    if (all.valid()) {
      out.links.push_back(std::move(all));
      return out;
    }
    if (errno == EPERM || errno == EACCES || errno == ENOENT) {
      return fail_errno(errno, "the probes cannot be attached to " + path);
    }
  }
  // One by one: a single instruction that the kernel will not probe must not cost the rest.
  int last_error = 0;
  for (const ProbeTarget& target : targets) {
    Fd one =
        multi ? attach_multi(program_fd, path, {target}) : attach_perf(program_fd, path, target);
    if (one.valid()) {
      out.links.push_back(std::move(one));
    } else {
      last_error = errno;
      out.refused.push_back(target.cookie);
    }
  }
  if (out.links.empty()) {
    return fail_errno(last_error, "the probes cannot be attached to " + path);
  }
  return out;
}

bool kernel_has_uprobe_multi() {
  // return 0, loaded for multi-uprobes; a folder instead of a file must then be answered by EBADF.
  const bpf_insn code[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  bpf_prog_load_opts options{};
  options.sz = sizeof options;
  options.expected_attach_type = static_cast<bpf_attach_type>(kTraceUprobeMulti);
  const Fd program(
      bpf_prog_load(BPF_PROG_TYPE_KPROBE, "rung_try", "GPL", code, std::size(code), &options));
  if (!program.valid()) return false;
  const std::uint64_t offset = 0;
  const Fd link(create_multi_link(program.get(), "/", &offset, &offset, 1));
  return !link.valid() && errno == EBADF;
}

}  // namespace rung
