// Reading whole files, and writing files that appear whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace slackline {

/// The contents of `path`. Throws Error{io} when it cannot be read, is a directory, or has more than
/// `limit` bytes.
std::string read_file(const std::filesystem::path& path, uint64_t limit = uint64_t{16} << 30);

/// The contents of a file, for files of gigabytes: mapped where it is an ordinary file, so that they are neither
/// copied nor held in memory of our own; read otherwise.
class FileContents {
 public:
  /// Throws Error{io} as read_file does.
  explicit FileContents(const std::filesystem::path& path);
  ~FileContents();
  FileContents(const FileContents&) = delete;
  FileContents& operator=(const FileContents&) = delete;

  /// Valid as long as this object, and as long as nobody truncates the file.
  std::string_view view() const { return view_; }

 private:
  std::string text_;  // where the file could not be mapped
  std::string_view view_;
  void* mapping_ = nullptr;
};

/// Calls `write` on a stream to a temporary file beside `path` and renames it to `path` once all of it has
/// been written; on any exception, or when writing fails, the temporary file is removed and an existing
/// `path` stays as it was. Through a symbolic link, the file that it points to is replaced. What is no ordinary
/// file (a device, a pipe) is written to as it stands. Throws Error{io}.
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(std::ostream&)>& write);

}  // namespace slackline
