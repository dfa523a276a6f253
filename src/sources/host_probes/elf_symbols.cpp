#include "sources/host_probes/elf_symbols.h"

#include <gelf.h>
#include <libelf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/strings.h"

namespace rung {
namespace {

constexpr std::size_t kMostSymbols = 4u << 20;  // libtorch_cuda has some 200,000
constexpr std::size_t kMostSections = 65536;
constexpr std::size_t kMostSegments = 4096;

struct ElfEnd {
  void operator()(Elf* elf) const { elf_end(elf); }
};
using ElfHandle = std::unique_ptr<Elf, ElfEnd>;

// Reads up to `bytes` bytes at an offset of the file; gives how many.
using ReadAt = std::function<std::size_t(std::uint64_t, void*, std::size_t)>;

struct Segment {
  std::uint64_t address, offset, size;
};

std::vector<Segment> executable_segments(Elf* elf) {
  std::vector<Segment> out;
  std::size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) return out;
  count = std::min(count, kMostSegments);
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr) continue;
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    out.push_back({header.p_vaddr, header.p_offset, header.p_filesz});
  }
  return out;
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> offset_of(
    const std::vector<Segment>& segments, std::uint64_t address) {
  for (const Segment& segment : segments) {
    if (address < segment.address || address - segment.address >= segment.size) continue;
    const std::uint64_t inside = address - segment.address;
    if (segment.offset > UINT64_MAX - inside) continue;
    return std::pair{segment.offset + inside, segment.size - inside};
  }
  return std::nullopt;
}

std::string build_id_in(Elf_Data* data) {
  std::size_t at = 0;
  GElf_Nhdr note;
  std::size_t name = 0;
  std::size_t description = 0;
  while (at < data->d_size) {
    const std::size_t next = gelf_getnote(data, at, &note, &name, &description);
    if (next == 0 || next <= at) break;
    const char* bytes = static_cast<const char*>(data->d_buf);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz <= 64 &&
        std::memcmp(bytes + name, "GNU", 4) == 0) {
      return hex(std::string_view(bytes + description, note.n_descsz));
    }
    at = next;
  }
  return "";
}

class Search {
 public:
  Search(Elf* elf, ReadAt read_at, std::span<const std::string_view> names)
      : elf_(elf), read_at_(std::move(read_at)), segments_(executable_segments(elf)) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!names[i].empty()) wanted_.emplace(names[i], i);
    }
  }

  ElfFunctions run() {
    Elf_Scn* section = nullptr;
    std::size_t sections = 0;
    while ((section = elf_nextscn(elf_, section)) != nullptr && ++sections < kMostSections) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr) continue;
      if (header.sh_type == SHT_NOTE && out_.build_id.empty()) {
        Elf_Data* data = elf_getdata(section, nullptr);
        if (data != nullptr && data->d_buf != nullptr) out_.build_id = build_id_in(data);
      }
      if (header.sh_type == SHT_DYNSYM || header.sh_type == SHT_SYMTAB) scan(section, header);
    }
    std::sort(out_.found.begin(), out_.found.end(), [](const auto& a, const auto& b) {
      return std::pair(a.file_offset, a.wanted) < std::pair(b.file_offset, b.wanted);
    });
    const auto last =
        std::unique(out_.found.begin(), out_.found.end(),
                    [](const auto& a, const auto& b) { return a.file_offset == b.file_offset; });
    out_.found.erase(last, out_.found.end());
    return std::move(out_);
  }

 private:
  void scan(Elf_Scn* section, const GElf_Shdr& header) {
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) return;
    const std::size_t entry = gelf_fsize(elf_, ELF_T_SYM, 1, EV_CURRENT);
    if (entry == 0) return;
    const std::size_t count = std::min(data->d_size / entry, kMostSymbols);
    for (std::size_t i = 0; i < count; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) continue;
      if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      const char* name = elf_strptr(elf_, header.sh_link, symbol.st_name);
      if (name == nullptr) continue;
      const auto wanted = wanted_.find(std::string_view(name));
      if (wanted != wanted_.end()) add(wanted->second, symbol.st_value);
    }
  }

  void add(std::size_t wanted, std::uint64_t address) {
    const auto place = offset_of(segments_, address);
    if (!place) return;
    ElfFunction function;
    function.wanted = wanted;
    function.file_offset = place->first;
    const auto bytes = std::min<std::uint64_t>(function.code.size(), place->second);
    function.code_bytes =
        read_at_(place->first, function.code.data(), static_cast<std::size_t>(bytes));
    out_.found.push_back(function);
  }

  Elf* elf_;
  ReadAt read_at_;
  std::vector<Segment> segments_;
  std::unordered_map<std::string_view, std::size_t> wanted_;
  ElfFunctions out_;
};

Result<ElfFunctions> search(ElfHandle elf, ReadAt read_at,
                            std::span<const std::string_view> names) {
  if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF ||
      gelf_getclass(elf.get()) != ELFCLASS64) {
    return fail(ErrorCode::kBadInput, "not a 64-bit ELF file");
  }
  GElf_Ehdr header;
  if (gelf_getehdr(elf.get(), &header) == nullptr) {
    return fail(ErrorCode::kBadInput, "the ELF header cannot be read");
  }
#if defined(__x86_64__)
  const bool foreign = header.e_machine != EM_X86_64;
#else
  const bool foreign = header.e_machine != EM_AARCH64;
#endif
  ElfFunctions out = Search(elf.get(), std::move(read_at), names).run();
  out.foreign_architecture = foreign;
  return out;
}

}  // namespace

Result<ElfFunctions> find_functions(int fd, std::span<const std::string_view> names) {
  elf_version(EV_CURRENT);
  // Read, not mapped: a file that shrinks under a mapping would kill us with SIGBUS.
  ElfHandle elf(elf_begin(fd, ELF_C_READ, nullptr));
  const auto read_at = [fd](std::uint64_t offset, void* out, std::size_t bytes) {
    const ssize_t got = pread(fd, out, bytes, static_cast<off_t>(offset));
    return got > 0 ? static_cast<std::size_t>(got) : std::size_t{0};
  };
  return search(std::move(elf), read_at, names);
}

Result<ElfFunctions> find_functions(std::span<const std::uint8_t> file,
                                    std::span<const std::string_view> names) {
  elf_version(EV_CURRENT);
  std::vector<char> copy(file.begin(), file.end());  // libelf may write to its image
  ElfHandle elf(elf_memory(copy.data(), copy.size()));
  const auto read_at = [file](std::uint64_t offset, void* out, std::size_t bytes) {
    if (offset >= file.size()) return std::size_t{0};
    const std::size_t got = std::min<std::size_t>(bytes, file.size() - offset);
    std::memcpy(out, file.data() + offset, got);
    return got;
  };
  return search(std::move(elf), read_at, names);
}

}  // namespace rung
