#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/fd.h"

namespace rung {

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return fail_errno(errno, "cannot open " + path);
  std::string text;
  char chunk[16384];
  while (text.size() < max_bytes) {
    const std::size_t want = std::min(sizeof chunk, max_bytes - text.size());
    const ssize_t got = ::read(fd.get(), chunk, want);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "cannot read " + path);
    if (got == 0) break;
    text.append(chunk, static_cast<std::size_t>(got));
  }
  return text;
}

Result<void> write_file_atomically(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.valid()) return fail_errno(errno, "cannot create " + temporary);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(fd.get(), text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int reason = errno;
      ::unlink(temporary.c_str());
      return fail_errno(reason, "cannot write " + path);
    }
    done += static_cast<std::size_t>(put);
  }
  fd.reset();
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    return fail_errno(reason, "cannot write " + path);
  }
  return {};
}

Result<std::vector<std::string>> list_folder(const std::string& path, std::size_t max_entries) {
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return fail_errno(errno, "cannot list " + path);
  std::vector<std::string> names;
  while (names.size() < max_entries) {
    const dirent* entry = ::readdir(folder);
    if (entry == nullptr) break;
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    names.emplace_back(entry->d_name);
  }
  ::closedir(folder);
  return names;
}

Result<std::string> read_link(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  if (length < 0) return fail_errno(errno, "cannot read link " + path);
  return std::string(target, static_cast<std::size_t>(length));
}

}  // namespace rung
