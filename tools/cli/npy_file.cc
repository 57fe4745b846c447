#include "tools/cli/npy_file.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

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

[[noreturn]] void fail(const std::string& path, int code) {
  throw Error(ErrorKind::kIo,
              printable(path) + ": cannot write: " + std::generic_category().message(code));
}

}  // namespace

NpyFile::NpyFile(const std::string& path, std::span<const int64_t> shape, const std::string& source)
    : path_(path), left_(1) {
  std::error_code ignored;  // of a file that does not exist yet
  if (std::filesystem::equivalent(path, source, ignored))
    throw Error(ErrorKind::kInvalidArgument,
                "--out: '" + printable(path) + "' is the file that is read");
  // A link is written through, what is no file is written to.
  const bool exists = std::filesystem::exists(path, ignored);
  if (exists) path_ = std::filesystem::canonical(path, ignored).string();
  replaces_ = exists && std::filesystem::is_regular_file(path_, ignored);
  stream_.open(written(), std::ios::binary | std::ios::trunc);
  if (!stream_) fail(path_, errno);
  for (const int64_t dim : shape) left_ = checked_mul(left_, dim, "array size");
  stream_ << header(shape);
}

NpyFile::~NpyFile() {
  if (closed_) return;
  stream_.close();
  std::error_code ignored;
  if (std::filesystem::is_regular_file(written(), ignored))
    std::filesystem::remove(written(), ignored);
}

std::string NpyFile::written() const {
  return replaces_ ? path_ + ".part" : path_;
}

void NpyFile::write(std::span<const float> values) {
  left_ -= int64_t(values.size());
  stream_.write(reinterpret_cast<const char*>(values.data()),
                static_cast<std::streamsize>(values.size_bytes()));
  if (!stream_) fail(path_, errno);
}

void NpyFile::close() {
  stream_.close();
  if (!stream_) fail(path_, errno);
  if (left_ != 0) {
    throw Error(ErrorKind::kInternal, printable(path_) + ": " + std::to_string(left_) +
                                          " values short of the array's shape");
  }
  std::error_code error;
  if (replaces_) std::filesystem::rename(written(), path_, error);
  if (error) fail(path_, error.value());
  closed_ = true;
}

}  // namespace tw::cli
