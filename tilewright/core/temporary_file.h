// A file that takes another's place once it is whole: no reader sees half of it, and what was there
// before stays until then.
#pragma once

#include <string>
#include <string_view>

#include "tilewright/core/macros.h"

namespace tw {

/// Throws kIo, naming `path`; `code` is an errno.
[[noreturn]] TW_API void fail_to_write(const std::string& path, int code);

/// Writes all of `bytes`; throws kIo, naming `path`.
TW_API void write_all(int fd, std::string_view bytes, const std::string& path);

class TW_API TemporaryFile {
 public:
  /// Creates a file of a name that nobody has, in the folder of `path` and with the permissions of
  /// what is there. Throws kIo.
  explicit TemporaryFile(const std::string& path);
  /// Removes the file unless it has taken its place.
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_; }
  const std::string& name() const { return name_; }

  /// Closes it, and moves it to `path`. `durable`: it is on the disk before. Throws kIo.
  void replace(bool durable = false);

 private:
  std::string path_, name_;
  int fd_;
  bool exists_ = true;
};

}  // namespace tw
