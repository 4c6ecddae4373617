#include "base/files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.hpp"

namespace slackline {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path, uint64_t limit) {
  std::error_code status;
  if (fs::is_directory(path, status))
    throw Error(ErrorKind::io, "is a directory, not a file", path.string());
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw Error(ErrorKind::io, std::string("cannot be read: ") + std::strerror(errno), path.string());
  std::string text;
  char buffer[1 << 16];
  while (stream.read(buffer, sizeof buffer), stream.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(stream.gcount()));
    if (text.size() > limit)
      throw Error(ErrorKind::io, "has more than " + std::to_string(limit) + " bytes", path.string());
  }
  if (stream.bad()) throw Error(ErrorKind::io, "reading failed", path.string());
  return text;
}

FileContents::FileContents(const fs::path& path) {
  struct stat status;
  // Asked before opening: a pipe's writer would notice that it was opened and closed again.
  const bool ordinary = ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  const int file = ordinary ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1;
  if (file >= 0 && ::fstat(file, &status) == 0 && status.st_size > 0) {
    const auto size = static_cast<size_t>(status.st_size);
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (address != MAP_FAILED) {
      mapping_ = address;
      view_ = {static_cast<const char*>(address), size};
    }
  }
  if (file >= 0) ::close(file);
  if (mapping_) return;
  text_ = read_file(path);
  view_ = text_;
}

FileContents::~FileContents() {
  if (mapping_) ::munmap(mapping_, view_.size());
}

namespace {

std::string with_reason(const std::string& problem) {
  return errno == 0 ? problem : problem + ": " + std::strerror(errno);
}

// Writes all of a file that need not exist yet; errors name `path`.
void write_whole(const fs::path& file, const fs::path& path, const std::function<void(std::ostream&)>& write) {
  errno = 0;
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  if (!stream) throw Error(ErrorKind::io, with_reason("cannot be written"), path.string());
  write(stream);
  stream.close();
  if (!stream) throw Error(ErrorKind::io, with_reason("writing failed"), path.string());
}

}  // namespace

void write_file_atomically(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  // Renaming onto /dev/null would replace it.
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
    return write_whole(path, path, write);
  const fs::path target = fs::is_symlink(path, ignored) && fs::exists(status) ? fs::canonical(path) : path;
  const fs::path temporary = target.string() + ".tmp" + std::to_string(::getpid());
  try {
    write_whole(temporary, path, write);
    fs::rename(temporary, target);
  } catch (const fs::filesystem_error& error) {
    fs::remove(temporary, ignored);
    throw Error(ErrorKind::io, "cannot be written: " + error.code().message(), path.string());
  } catch (...) {
    fs::remove(temporary, ignored);
    throw;
  }
}

}  // namespace slackline
