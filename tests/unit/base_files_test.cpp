#include "base/files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <ostream>
#include <thread>

#include "../support/expect_error.hpp"

namespace slackline {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("slackline_files_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static void write(const fs::path& path, const std::string& text) {
    write_file_atomically(path, [&](std::ostream& stream) { stream << text; });
  }
  fs::path folder_;
};

TEST_F(Files, WriteAndReadBack) {
  const std::string text("a\0b\n", 4);
  write(folder_ / "x", text);
  EXPECT_EQ(read_file(folder_ / "x"), text);
  EXPECT_EQ(FileContents(folder_ / "x").view(), text);
  write(folder_ / "x", "");
  EXPECT_EQ(read_file(folder_ / "x"), "");
  EXPECT_EQ(FileContents(folder_ / "x").view(), "");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, AFailingWriterLeavesTheOldFileAndNothingElse) {
  write(folder_ / "x", "old");
  EXPECT_THROW(write_file_atomically(folder_ / "x",
                                     [](std::ostream& stream) {
                                       stream << std::string(1 << 20, 'n');
                                       throw std::runtime_error("no more");
                                     }),
               std::runtime_error);
  EXPECT_EQ(read_file(folder_ / "x"), "old");
  EXPECT_EQ(entries(), 1u);
  EXPECT_THROW(write_file_atomically(folder_ / "y", [](std::ostream&) { throw 1; }), int);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, AStreamThatFailedIsAnError) {
  write(folder_ / "x", "old");
  EXPECT_EQ(error_of([&] {
              write_file_atomically(folder_ / "x", [](std::ostream& stream) { stream.setstate(std::ios::badbit); });
            }),
            (folder_ / "x").string() + ": writing failed");
  EXPECT_EQ(read_file(folder_ / "x"), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, PlacesThatCannotBeWritten) {
  const fs::path missing = folder_ / "no" / "x";
  EXPECT_EQ(error_of([&] { write(missing, ""); }), missing.string() + ": cannot be written: No such file or directory");
  fs::create_directory(folder_ / "dir");
  EXPECT_EQ(error_of([&] { write(folder_ / "dir", ""); }),
            (folder_ / "dir").string() + ": cannot be written: Is a directory");
  EXPECT_EQ(error_kind_of([&] { write(missing, ""); }), ErrorKind::io);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, SymbolicLinksStay) {
  write(folder_ / "x", "old");
  fs::create_symlink("x", folder_ / "link");
  write(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_file(folder_ / "x"), "new");
}

TEST_F(Files, DevicesAreWrittenToAndNotReplaced) {
  write("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  if (fs::exists("/dev/full")) {
    EXPECT_EQ(error_of([] { write("/dev/full", "x"); }), "/dev/full: writing failed: No space left on device");
  }
}

TEST_F(Files, PipesAreReadOnce) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string text(200'000, 'p');
  std::thread writer([&] { std::ofstream(pipe) << text; });
  EXPECT_EQ(FileContents(pipe).view(), text);
  writer.join();
}

TEST_F(Files, FilesThatCannotBeRead) {
  const std::string missing = (folder_ / "none").string();
  EXPECT_EQ(error_of([&] { read_file(missing); }), missing + ": cannot be read: No such file or directory");
  EXPECT_EQ(error_of([&] { FileContents contents(missing); }), missing + ": cannot be read: No such file or directory");
  EXPECT_EQ(error_of([&] { read_file(folder_); }), folder_.string() + ": is a directory, not a file");
  EXPECT_EQ(error_of([&] { FileContents contents(folder_); }), folder_.string() + ": is a directory, not a file");
  write(folder_ / "x", "12345");
  EXPECT_EQ(read_file(folder_ / "x", 5), "12345");
  EXPECT_EQ(error_of([&] { read_file(folder_ / "x", 4); }), (folder_ / "x").string() + ": has more than 4 bytes");
}

}  // namespace
}  // namespace slackline
