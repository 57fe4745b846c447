#include "tilewright/core/temporary_file.h"

#include <cerrno>
#include <random>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"

namespace tw {

// Takes errno as an argument: building the message may change it.
void fail_to_write(const std::string& path, int code) {
  throw Error(ErrorKind::kIo,
              printable(path) + ": cannot write: " + std::generic_category().message(code));
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail_to_write(path, errno);
    if (written > 0) bytes.remove_prefix(size_t(written));
  }
}

TemporaryFile::TemporaryFile(const std::string& path) : path_(path) {
  std::random_device random;
  // Not mkstemp, whose file nobody else may read. O_EXCL follows no link.
  do {
    name_ = path + "." + std::to_string(random());
    fd_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) fail_to_write(path, errno);
  struct stat before;
  if (::stat(path.c_str(), &before) != 0) return;
  // Of another user's file perhaps not all; it is ours then, with what the system lets us give.
  (void)!::fchmod(fd_, before.st_mode & 0777);
}

TemporaryFile::~TemporaryFile() {
  if (fd_ >= 0) ::close(fd_);
  if (exists_) ::unlink(name_.c_str());
}

void TemporaryFile::replace(bool durable) {
  if (durable && ::fsync(fd_) != 0) fail_to_write(path_, errno);
  if (::close(std::exchange(fd_, -1)) != 0)
    fail_to_write(path_, errno);  // what a disk elsewhere refuses
  if (::rename(name_.c_str(), path_.c_str()) != 0) fail_to_write(path_, errno);
  exists_ = false;
}

}  // namespace tw
