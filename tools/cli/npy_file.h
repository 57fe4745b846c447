// Writes one float32 array as a .npy file (format version 1.0), piece by piece.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tilewright/core/temporary_file.h"

namespace tw::cli {

/// A .npy file being written. Row-major float32; the pieces follow each other in memory order.
/// A file that is there already stays as it is until close(); nothing is left of one that is not
/// finished, whose header would claim values that it has not.
class NpyFile {
 public:
  /// Creates or replaces `path`. Throws kIo when the system refuses, kInvalidArgument where `path`
  /// is `source`, the file that the values come from.
  NpyFile(const std::string& path, std::span<const int64_t> shape, const std::string& source);
  ~NpyFile();
  NpyFile(const NpyFile&) = delete;
  NpyFile& operator=(const NpyFile&) = delete;

  void write(std::span<const float> values);

  /// Throws kIo when anything failed to reach the file, kInternal when the number of values written
  /// is not that of the shape.
  void close();

 private:
  std::string path_;
  std::optional<TemporaryFile> file_;  // but for devices and pipes
  int fd_;
  int64_t left_;  // values still to come
};

}  // namespace tw::cli
