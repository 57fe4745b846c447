#include "tilewright/core/mapped_file.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tilewright/core/error.h"

namespace tw {
namespace {

std::string text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

ErrorKind kind_of_open(const std::string& path) {
  try {
    MappedFile::open(path);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    return error.kind();
  }
  return ErrorKind::kInternal;
}

TEST(MappedFile, MapsAndMoves) {
  const std::string path = ::testing::TempDir() + "mapped_file_test.bin";
  std::ofstream(path) << "hello";
  MappedFile file = MappedFile::open(path);
  const std::byte* data = file.bytes().data();
  EXPECT_EQ(text(file), "hello");
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes().data(), data);
  MappedFile assigned;
  assigned = std::move(moved);
  EXPECT_EQ(text(assigned), "hello");
  std::remove(path.c_str());
}

TEST(MappedFile, ReleasedPagesReadTheSameAgain) {
  std::string numbers;
  for (int i = 0; i < 5000; ++i) numbers += std::to_string(i) + "\n";
  const std::string path = ::testing::TempDir() + "mapped_file_release.txt";
  std::ofstream(path) << numbers;
  const MappedFile file = MappedFile::open(path);
  ASSERT_EQ(text(file), numbers);
  file.release(file.bytes().subspan(5000, 9000));
  file.release(file.bytes().last(1));
  file.release({});
  EXPECT_EQ(text(file), numbers);
  std::remove(path.c_str());
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const std::string path = ::testing::TempDir() + "mapped_file_empty.bin";
  std::ofstream(path).close();
  EXPECT_TRUE(MappedFile::open(path).bytes().empty());
  std::remove(path.c_str());
}

TEST(MappedFile, NamesThePathThatItRefuses) {
  EXPECT_EQ(kind_of_open(::testing::TempDir() + "no/such/file"), ErrorKind::kIo);
  EXPECT_EQ(kind_of_open(::testing::TempDir()), ErrorKind::kBadFile);
  const std::string pipe = ::testing::TempDir() + "mapped_file_pipe";
  std::remove(pipe.c_str());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(kind_of_open(pipe), ErrorKind::kBadFile);  // and does not wait for a writer
  std::remove(pipe.c_str());
}

}  // namespace
}  // namespace tw
