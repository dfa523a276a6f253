#include "sources/procfs/elf_facts.h"

#include <gelf.h>
#include <libelf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace rung {
namespace {

constexpr std::size_t kMostHeaders = 4096;            // program or section headers looked at
constexpr std::uint64_t kMostNoteBytes = 1 << 20;     // of one note segment
constexpr std::uint64_t kMostSymbolBytes = 64 << 20;  // of .dynsym and of its strings
constexpr std::uint64_t kMostSearchedBytes = 64 << 20;
constexpr std::size_t kMostBuildIdBytes = 64;

struct EndElf {
  void operator()(Elf* elf) const { elf_end(elf); }
};
using ElfHandle = std::unique_ptr<Elf, EndElf>;

std::string build_id_in_notes(Elf_Data* data) {
  GElf_Nhdr note;
  std::size_t name_at = 0;
  std::size_t desc_at = 0;
  std::size_t at = 0;
  const char* bytes = static_cast<const char*>(data->d_buf);
  while (at < data->d_size) {
    const std::size_t next = gelf_getnote(data, at, &note, &name_at, &desc_at);
    if (next <= at) break;
    const bool gnu = note.n_namesz == 4 && std::memcmp(bytes + name_at, "GNU", 4) == 0;
    if (gnu && note.n_type == NT_GNU_BUILD_ID && note.n_descsz <= kMostBuildIdBytes) {
      return hex(std::string_view(bytes + desc_at, note.n_descsz));
    }
    at = next;
  }
  return "";
}

std::string find_build_id(Elf* elf) {
  std::size_t headers = 0;
  if (elf_getphdrnum(elf, &headers) != 0) return "";
  for (std::size_t i = 0; i < std::min(headers, kMostHeaders); ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr) return "";
    if (header.p_type != PT_NOTE || header.p_filesz > kMostNoteBytes) continue;
    const Elf_Type type = header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR;
    Elf_Data* data = elf_getdata_rawchunk(elf, static_cast<std::int64_t>(header.p_offset),
                                          header.p_filesz, type);
    if (data == nullptr || data->d_buf == nullptr) continue;
    std::string id = build_id_in_notes(data);
    if (!id.empty()) return id;
  }
  return "";
}

bool exports_in(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, std::string_view wanted) {
  Elf_Scn* names = elf_getscn(elf, header.sh_link);
  GElf_Shdr names_header;
  if (names == nullptr || gelf_getshdr(names, &names_header) == nullptr) return false;
  if (header.sh_size > kMostSymbolBytes || names_header.sh_size > kMostSymbolBytes) return false;
  Elf_Data* symbols = elf_getdata(section, nullptr);
  if (symbols == nullptr || header.sh_entsize == 0) return false;
  const std::uint64_t count = header.sh_size / header.sh_entsize;
  for (std::uint64_t i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(symbols, static_cast<int>(i), &symbol) == nullptr) return false;
    if (symbol.st_shndx == SHN_UNDEF) continue;
    const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
    if (name != nullptr && wanted == name) return true;
  }
  return false;
}

bool exports(Elf* elf, std::string_view wanted) {
  Elf_Scn* section = nullptr;
  for (std::size_t i = 0; i < kMostHeaders; ++i) {
    section = elf_nextscn(elf, section);
    if (section == nullptr) return false;
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) return false;
    if (header.sh_type == SHT_DYNSYM) return exports_in(elf, section, header, wanted);
  }
  return false;
}

// X.Y.Z at the start of `text`, or "".
std::string leading_version(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view version = text.substr(0, end);
  return std::count(version.begin(), version.end(), '.') == 2 ? std::string(version) : "";
}

// Searches [offset, offset + size) of the file, a chunk at a time.
std::string search_version(int fd, std::uint64_t offset, std::uint64_t size) {
  constexpr std::string_view kMark = "NCCL version ";
  constexpr std::size_t kChunk = 1 << 20;
  constexpr std::size_t kOverlap = 64;  // more than the mark and a version
  std::vector<char> chunk(kChunk);
  for (std::uint64_t at = 0; at < size; at += kChunk - kOverlap) {
    const std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, size - at));
    const ssize_t got = ::pread(fd, chunk.data(), want, static_cast<off_t>(offset + at));
    if (got <= 0) return "";
    const std::string_view text(chunk.data(), static_cast<std::size_t>(got));
    for (std::size_t mark = text.find(kMark); mark != std::string_view::npos;
         mark = text.find(kMark, mark + 1)) {
      std::string version = leading_version(text.substr(mark + kMark.size()));
      if (!version.empty()) return version;
    }
    if (want < kChunk) break;
  }
  return "";
}

std::string find_nccl_version(Elf* elf, int fd) {
  std::uint64_t budget = kMostSearchedBytes;
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return "";
  Elf_Scn* section = nullptr;
  for (std::size_t i = 0; i < kMostHeaders; ++i) {
    section = elf_nextscn(elf, section);
    if (section == nullptr) return "";
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) return "";
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (name == nullptr || header.sh_type != SHT_PROGBITS) continue;
    if (!std::string_view(name).starts_with(".rodata")) continue;
    const std::uint64_t size = std::min(header.sh_size, budget);
    std::string version = search_version(fd, header.sh_offset, size);
    if (!version.empty()) return version;
    budget -= size;
  }
  return "";
}

}  // namespace

Result<ElfFacts> read_elf_facts(int fd, bool search_nccl) {
  static const bool ready = elf_version(EV_CURRENT) != EV_NONE;
  if (!ready) return fail(ErrorCode::kInternal, "libelf is older than its header");
  const ElfHandle elf(elf_begin(fd, ELF_C_READ, nullptr));
  if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF) {
    return fail(ErrorCode::kBadInput, "not an ELF file");
  }
  ElfFacts facts;
  facts.build_id = find_build_id(elf.get());
  facts.simulated = exports(elf.get(), "rung_simulated");
  if (search_nccl) facts.nccl_version = find_nccl_version(elf.get(), fd);
  return facts;
}

}  // namespace rung
