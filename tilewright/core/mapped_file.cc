#include "tilewright/core/mapped_file.h"

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"

namespace tw {
namespace {

// Takes errno as an argument: building the message may change it.
[[noreturn]] void fail(const std::string& path, const char* action, int code) {
  throw Error(ErrorKind::kIo, printable(path) + ": cannot " + action + ": " +
                                  std::generic_category().message(code));
}

// Closes the descriptor on every way out; the mapping outlives it.
struct Descriptor {
  int fd;
  ~Descriptor() { ::close(fd); }
};

}  // namespace

MappedFile MappedFile::open(const std::string& path) {
  // O_NONBLOCK: a named pipe must be refused below, not waited for.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail(path, "open", errno);
  struct stat status;
  if (::fstat(file.fd, &status) != 0) fail(path, "read the size", errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::kBadFile, printable(path) + ": is not a regular file");
  }
  MappedFile out;
  if (status.st_size == 0) return out;  // mmap refuses a length of zero
  const auto size = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) fail(path, "map", errno);
  out.bytes_ = {static_cast<const std::byte*>(data), size};
  return out;
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const uintptr_t last = reinterpret_cast<uintptr_t>(part.data() + part.size());
  // Advice: a system that refuses it keeps the pages, which is no error.
  ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace tw
