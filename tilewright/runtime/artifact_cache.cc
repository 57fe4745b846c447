#include "tilewright/runtime/artifact_cache.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tw::runtime {
namespace {

namespace fs = std::filesystem;

// A file: these bytes, the key, the digest of the artifact, the artifact.
constexpr std::string_view kMagic = "tilewright artifact 1\n";
constexpr size_t kHeaderBytes = kMagic.size() + 2 * sizeof(Digest);
constexpr int64_t kMostFileBytes = int64_t{256} << 20;
constexpr const char* kSuffix = ".artifact";
constexpr auto kAbandoned = std::chrono::hours(1);  // a temporary file so old

std::string_view as_text(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// A file descriptor that closes itself.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_;
};

bool read_all(int fd, char* to, size_t count) {
  while (count > 0) {
    const ssize_t n = ::read(fd, to, count);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    count -= size_t(n);
  }
  return true;
}

bool wrote_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(size_t(n));
  }
  return true;
}

void say_once(const std::string& message) {
  static std::atomic<bool> said = false;
  if (!said.exchange(true)) std::fprintf(stderr, "tilewright: %s\n", message.c_str());
}

bool is_absolute(const char* path) {
  return path != nullptr && path[0] == '/';
}

}  // namespace

std::string cache_folder() {
  // A relative path here is to be ignored, says the XDG base directory specification.
  const char* const own = std::getenv("TILEWRIGHT_CACHE_DIR");
  if (is_absolute(own)) return own;
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (is_absolute(cache)) return std::string(cache) + "/tilewright";
  const char* const home = std::getenv("HOME");
  if (is_absolute(home)) return std::string(home) + "/.cache/tilewright";
  return {};
}

ArtifactCache::ArtifactCache(std::string folder, int64_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes) {}

std::string ArtifactCache::path_of(const Digest& key) const {
  return folder_ + "/" + hex(key) + kSuffix;
}

/// Whoever can write to the folder decides what the GPU runs: a checksum does not help against
/// them.
bool ArtifactCache::is_usable() const {
  if (folder_.empty()) return false;
  std::error_code error;
  const fs::path folder(folder_);
  fs::create_directories(folder.parent_path(), error);
  if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) {
    say_once("compiled kernels are not kept: cannot create " + folder_ + ": " +
             std::strerror(errno));
    return false;
  }
  struct stat info{};
  if (lstat(folder_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    say_once("compiled kernels are not kept: " + folder_ +
             " is no folder that only this user can write to");
    return false;
  }
  return true;
}

bool ArtifactCache::read(const Digest& key, std::string& bytes) const {
  const File file(open(path_of(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info{};
  if (!file || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != geteuid() || info.st_size < off_t(kHeaderBytes) ||
      info.st_size > kMostFileBytes)
    return false;
  std::string header(kHeaderBytes, '\0'), content(size_t(info.st_size) - kHeaderBytes, '\0');
  if (!read_all(file.get(), header.data(), header.size()) ||
      !read_all(file.get(), content.data(), content.size()))
    return false;
  const std::string_view fields = std::string_view(header).substr(kMagic.size());
  if (!header.starts_with(kMagic) || fields.substr(0, sizeof(Digest)) != as_text(key) ||
      fields.substr(sizeof(Digest)) != as_text(Sha256().add(content).digest()))
    return false;
  futimens(file.get(), nullptr);  // what is used is not the oldest
  bytes = std::move(content);
  return true;
}

/// What a crash leaves half written does not pass read(), so that nothing waits for the disk.
void ArtifactCache::keep(const Digest& key, std::string_view bytes) const {
  if (int64_t(bytes.size() + kHeaderBytes) > kMostFileBytes) return;
  std::string temporary = path_of(key) + ".XXXXXX";
  bool ok = false;
  {
    const File file(mkostemp(temporary.data(), O_CLOEXEC));
    ok = file && wrote_all(file.get(), kMagic) && wrote_all(file.get(), as_text(key)) &&
         wrote_all(file.get(), as_text(Sha256().add(bytes).digest())) &&
         wrote_all(file.get(), bytes);
  }
  if (!ok || rename(temporary.c_str(), path_of(key).c_str()) != 0) {
    say_once("a compiled kernel is not kept: cannot write " + temporary + ": " +
             std::strerror(errno));
    unlink(temporary.c_str());
    return;
  }
  remove_oldest();
}

void ArtifactCache::remove_oldest() const {
  struct Entry {
    fs::file_time_type time;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code error;  // of a file that another process has removed
  for (const fs::directory_entry& file : fs::directory_iterator(folder_, error)) {
    const std::string name = file.path().filename().string();
    if (name.find(kSuffix) == std::string::npos) continue;
    const fs::file_time_type time = file.last_write_time(error);
    if (error) continue;
    if (!name.ends_with(kSuffix)) {
      if (fs::file_time_type::clock::now() - time > kAbandoned) fs::remove(file.path(), error);
      continue;
    }
    const auto bytes = int64_t(file.file_size(error));
    if (error) continue;
    entries.push_back({time, bytes, file.path()});
    total += bytes;
  }
  if (total <= most_bytes_) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& entry : entries) {
    if (total <= most_bytes_ / 4 * 3) break;  // and not again for the next one
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

ArtifactCache::Found ArtifactCache::get(const Digest& key,
                                        const std::function<std::string()>& make) const {
  Found out;
  if (!is_usable()) return {make(), false};
  if (read(key, out.bytes)) return {std::move(out.bytes), true};
  // One of 256 locks: of those that want the same, the first makes it. Without a lock all do.
  const std::string lock_path = folder_ + "/" + hex(key).substr(0, 2) + ".lock";
  const File lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock) {
    while (flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    if (read(key, out.bytes)) return {std::move(out.bytes), true};
  }
  out.bytes = make();
  keep(key, out.bytes);
  return out;
}

}  // namespace tw::runtime
