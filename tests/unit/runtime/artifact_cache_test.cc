#include "tilewright/runtime/artifact_cache.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tw::runtime {
namespace {

namespace fs = std::filesystem;

/// A folder that goes away with the test, and a cache below it.
class ArtifactCacheTest : public ::testing::Test {
 protected:
  ArtifactCacheTest() {
    std::string name = (fs::temp_directory_path() / "tilewright-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~ArtifactCacheTest() override { fs::remove_all(root_); }

  std::string folder() const { return root_ + "/cache"; }
  ArtifactCache cache() const { return ArtifactCache(folder()); }
  static Digest key(const std::string& of) { return Sha256().add(of).digest(); }

  /// How often get() made the artifact anew.
  int made(const std::string& of, const std::string& value) {
    int times = 0;
    const auto found = cache().get(key(of), [&] {
      ++times;
      return value;
    });
    EXPECT_EQ(found.bytes, value);
    EXPECT_EQ(found.was_kept, times == 0);
    return times;
  }
  std::string read(const Digest& of) const {
    std::ifstream file(cache().path_of(of), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const Digest& of, const std::string& bytes) const {
    std::ofstream(cache().path_of(of), std::ios::binary) << bytes;
  }

 private:
  std::string root_;
};

TEST(Sha256, KnownDigests) {
  // FIPS 180-4's examples, and a length that leaves no room for the count in the last block.
  EXPECT_EQ(hex(Sha256().add("abc").digest()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(Sha256().digest()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(Sha256().add("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").digest()),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  const std::string long_text(1000003, 'a');
  EXPECT_EQ(Sha256().add(long_text).digest(),
            Sha256().add(long_text.substr(0, 77)).add(long_text.substr(77)).digest());
}

TEST(Sha256, FieldsDoNotRunTogether) {
  EXPECT_NE(Sha256().add_field("ab").add_field("c").digest(),
            Sha256().add_field("a").add_field("bc").digest());
}

TEST_F(ArtifactCacheTest, KeepsWhatWasMade) {
  const std::string binary("\0\x7f\n@ELF\0", 8);
  EXPECT_EQ(made("a", binary), 1);
  EXPECT_EQ(made("a", binary), 0);
  EXPECT_EQ(made("b", ""), 1);
  EXPECT_EQ(made("b", ""), 0);
  struct stat info{};
  ASSERT_EQ(lstat(folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, mode_t{0700});
  ASSERT_EQ(lstat(cache().path_of(key("a")).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, mode_t{0600});
}

TEST_F(ArtifactCacheTest, DamageIsMadeAnew) {
  const std::string value(1000, 'v');
  made("a", value);
  const std::string good = read(key("a"));
  // Each byte, the header's too, is looked at; so is the length.
  for (size_t i = 0; i < good.size(); i += i < 100 ? 1 : 97) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ 1);
    write(key("a"), bad);
    EXPECT_EQ(made("a", value), 1) << "byte " << i;
    EXPECT_EQ(read(key("a")), good);
  }
  for (const size_t length : {size_t{0}, size_t{30}, good.size() - 1}) {
    write(key("a"), good.substr(0, length));
    EXPECT_EQ(made("a", value), 1) << length << " bytes";
  }
  write(key("a"), good + "x");
  EXPECT_EQ(made("a", value), 1);
  // What belongs to another key is whole, and not this one's.
  write(key("b"), good);
  EXPECT_EQ(made("b", "other"), 1);
  EXPECT_EQ(made("b", "other"), 0);
}

TEST_F(ArtifactCacheTest, LinksAreNotFollowed) {
  made("a", "value");
  const std::string path = cache().path_of(key("a"));
  fs::rename(path, folder() + "/elsewhere");
  fs::create_symlink("elsewhere", path);
  EXPECT_EQ(made("a", "value"), 1);
  EXPECT_FALSE(fs::is_symlink(path));
}

TEST_F(ArtifactCacheTest, AFolderThatOthersCanWriteToIsNotUsed) {
  made("a", "value");
  ASSERT_EQ(chmod(folder().c_str(), 0777), 0);
  EXPECT_EQ(made("a", "value"), 1);
  EXPECT_EQ(made("a", "value"), 1);
  ASSERT_EQ(chmod(folder().c_str(), 0700), 0);
  EXPECT_EQ(made("a", "value"), 0);
}

TEST_F(ArtifactCacheTest, WithoutAFolderNothingIsKept) {
  for (const std::string folder : {"", "/dev/null/cache"}) {
    const ArtifactCache none(folder);
    for (int i = 0; i < 2; ++i) {
      const auto found = none.get(key("a"), [] { return std::string("value"); });
      EXPECT_EQ(found.bytes, "value");
      EXPECT_FALSE(found.was_kept);
    }
  }
}

TEST_F(ArtifactCacheTest, WhatFailsIsNotKept) {
  EXPECT_THROW(cache().get(key("a"), []() -> std::string { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(made("a", "value"), 1);
}

TEST_F(ArtifactCacheTest, TheOldestGoWhenItIsFull) {
  const ArtifactCache small(folder(), 10000);
  const std::string value(1000, 'v');
  const auto store = [&](int i) {
    small.get(key(std::to_string(i)), [&] { return value; });
    // Times of files are too coarse to tell these apart.
    const timespec times[2] = {{1000 + i, 0}, {1000 + i, 0}};
    utimensat(AT_FDCWD, small.path_of(key(std::to_string(i))).c_str(), times, 0);
  };
  for (int i = 0; i < 9; ++i) store(i);
  small.get(key("0"), [] { return std::string("not made"); });  // used: now the youngest
  store(9);
  const auto is_there = [&](int i) { return fs::exists(small.path_of(key(std::to_string(i)))); };
  EXPECT_TRUE(is_there(0));
  EXPECT_TRUE(is_there(8));
  EXPECT_TRUE(is_there(9));
  EXPECT_FALSE(is_there(1));
  int64_t total = 0;
  for (const auto& file : fs::directory_iterator(folder())) total += int64_t(file.file_size());
  EXPECT_LE(total, 7500);
  EXPECT_GT(total, 5000);
}

TEST_F(ArtifactCacheTest, OneOfManyProcessesAndThreadsMakesIt) {
  constexpr int kProcesses = 4, kThreads = 4;
  const std::string value(200000, 'v');
  const std::string log = folder() + "-log";
  for (int p = 0; p < kProcesses; ++p) {
    if (fork() != 0) continue;
    std::atomic<bool> ok = true;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          const auto found = cache().get(key(std::to_string(i)), [&] {
            std::ofstream(log, std::ios::app) << "x";
            return value;
          });
          if (found.bytes != value) ok = false;
        }
      });
    for (std::thread& thread : threads) thread.join();
    _exit(ok ? 0 : 1);
  }
  for (int p = 0; p < kProcesses; ++p) {
    int status = 0;
    ASSERT_GT(wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(fs::file_size(log), 20u);  // each was made once
}

TEST(CacheFolder, AbsolutePathsInOrder) {
  const auto set = [](const char* own, const char* cache, const char* home) {
    setenv("TILEWRIGHT_CACHE_DIR", own, 1);
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("HOME", home, 1);
  };
  const char* names[] = {"TILEWRIGHT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::string> before;
  for (const char* name : names) before.emplace_back(getenv(name) == nullptr ? "" : getenv(name));
  set("/own", "/cache", "/someone");
  EXPECT_EQ(cache_folder(), "/own");
  set("relative", "/cache", "/someone");
  EXPECT_EQ(cache_folder(), "/cache/tilewright");
  set("", "relative", "/someone");
  EXPECT_EQ(cache_folder(), "/someone/.cache/tilewright");
  set("", "", "");
  EXPECT_EQ(cache_folder(), "");
  for (size_t i = 0; i < 3; ++i)
    before[i].empty() ? unsetenv(names[i]) : setenv(names[i], before[i].c_str(), 1);
}

}  // namespace
}  // namespace tw::runtime
