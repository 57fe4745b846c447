// Writes one float32 array as a .npy file (format version 1.0), piece by piece.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

namespace tw::cli {

/// A .npy file being written. Row-major float32; the pieces follow each other in memory order.
/// A file that is there already stays as it is until close(): `path`.part is written meanwhile.
class NpyFile {
 public:
  /// Creates or replaces `path`. Throws kIo when the system refuses, kInvalidArgument where `path`
  /// is `source`, the file that the values come from.
  NpyFile(const std::string& path, std::span<const int64_t> shape, const std::string& source);
  /// Removes a file that was not finished: it would claim values that it has not.
  ~NpyFile();
  NpyFile(const NpyFile&) = delete;
  NpyFile& operator=(const NpyFile&) = delete;

  void write(std::span<const float> values);

  /// Flushes; throws kIo when anything failed to reach the file, kInternal when the number of
  /// values written is not that of the shape.
  void close();

 private:
  /// The file that is open.
  std::string written() const;

  std::string path_;
  bool replaces_ = false;
  std::ofstream stream_;
  int64_t left_;  // values still to come
  bool closed_ = false;
};

}  // namespace tw::cli
