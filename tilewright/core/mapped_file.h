// A file's bytes, mapped read-only into memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tilewright/core/macros.h"

namespace tw {

/// Owns one read-only mapping of a whole regular file. Moving keeps the bytes where they are.
/// The pages are read when they are touched; a file that another process cuts short meanwhile
/// makes that touch fail with SIGBUS, as with every mapping.
class TW_API MappedFile {
 public:
  /// Maps `path`. Throws kIo when the system refuses, kBadFile when it is no regular file.
  static MappedFile open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// All bytes of the file; empty for an empty file. The start is page-aligned.
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Takes the pages that hold `part` of bytes() out of this process's memory. They stay valid:
  /// touching one reads it again.
  void release(std::span<const std::byte> part) const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tw
