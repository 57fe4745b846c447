#include "tilewright/core/temporary_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tilewright/core/error.h"

namespace tw {
namespace {

namespace fs = std::filesystem;

class TemporaryFileTest : public ::testing::Test {
 protected:
  TemporaryFileTest() { fs::create_directories(folder_); }
  ~TemporaryFileTest() override { fs::remove_all(folder_); }

  static std::string text(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  auto files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  // Of this process: tests may run in several.
  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("tilewright_temporary_file_" + std::to_string(getpid()));
  const std::string path_ = folder_ / "file";
};

TEST_F(TemporaryFileTest, ReplacesWhenItIsWhole) {
  std::ofstream(path_) << "old";
  fs::permissions(path_, fs::perms(0640));
  TemporaryFile file(path_);
  write_all(file.fd(), "new", path_);
  EXPECT_EQ(text(path_), "old");
  file.replace(true);
  EXPECT_EQ(text(path_), "new");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0640));
  EXPECT_EQ(files(), 1);
}

TEST_F(TemporaryFileTest, LeavesNothingUnfinished) {
  {
    const TemporaryFile file(path_), other(path_);
  }
  EXPECT_EQ(files(), 0);
}

TEST_F(TemporaryFileTest, NamesTheFileThatItCannotWrite) {
  const std::string absent = folder_ / "no\n" / "file";
  try {
    TemporaryFile file(absent);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("no\\n/file: cannot write: "), std::string::npos);
  }
}

}  // namespace
}  // namespace tw
