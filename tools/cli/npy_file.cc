#include "tools/cli/npy_file.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "tilewright/core/checked.h"
#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"

namespace tw::cli {
namespace {

// Magic, version, and a Python dict padded so that the data starts at a multiple of 64 bytes.
std::string header(std::span<const int64_t> shape) {
  std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const int64_t dim : shape) dict += std::to_string(dim) + ", ";
  if (shape.size() > 1) dict.resize(dict.size() - 2);
  dict += "), }";
  constexpr size_t kPrefix = 10;  // magic 6, version 2, length of the dict 2
  while ((kPrefix + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  const std::string prefix("\x93NUMPY\x01\x00", 8);
  return prefix + char(dict.size() & 255) + char(dict.size() >> 8) + dict;
}

// What a signal that ends the process has to remove.
std::atomic<const char*> unfinished = nullptr;

void remove_unfinished(int signal) {
  if (const char* name = unfinished.exchange(nullptr)) ::unlink(name);
  ::raise(signal);  // SA_RESETHAND: by now it means what it did
}

void remove_on_signals(const char* name) {
  unfinished = name;
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU, SIGXFSZ}) {
    struct sigaction action{};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = remove_unfinished;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
  }
}

// Where a link leads, whether there is a file or not: a link is written through.
std::string followed(std::filesystem::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(path, error); ++links)
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  return path.string();
}

}  // namespace

NpyFile::NpyFile(const std::string& path, std::span<const int64_t> shape, const std::string& source)
    : path_(followed(path)), left_(1) {
  std::error_code ignored;  // of a file that does not exist yet
  if (std::filesystem::equivalent(path, source, ignored))
    throw Error(ErrorKind::kInvalidArgument,
                "--out: '" + printable(path) + "' is the file that is read");
  for (const int64_t dim : shape) left_ = checked_mul(left_, dim, "array size");
  const bool replaces =
      !std::filesystem::exists(path_, ignored) || std::filesystem::is_regular_file(path_, ignored);
  if (replaces) file_.emplace(path_);
  fd_ = replaces ? file_->fd() : ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd_ < 0) fail_to_write(path_, errno);
  write_all(fd_, header(shape), path_);
  if (replaces) remove_on_signals(file_->name().c_str());  // nothing throws from here on
}

NpyFile::~NpyFile() {
  unfinished = nullptr;
  if (!file_ && fd_ >= 0) ::close(fd_);
}

void NpyFile::write(std::span<const float> values) {
  left_ -= int64_t(values.size());
  write_all(fd_, {reinterpret_cast<const char*>(values.data()), values.size_bytes()}, path_);
}

void NpyFile::close() {
  if (left_ != 0) {
    throw Error(ErrorKind::kInternal, printable(path_) + ": " + std::to_string(left_) +
                                          " values short of the array's shape");
  }
  if (file_) return file_->replace();
  if (::close(std::exchange(fd_, -1)) != 0) fail_to_write(path_, errno);
}

}  // namespace tw::cli
