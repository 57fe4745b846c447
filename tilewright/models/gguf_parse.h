// The steps of GgufFile::parse. Internal to models/gguf*.cc.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/core/error.h"
#include "tilewright/models/gguf.h"

namespace tw::models::gguf {

/// Reads a T of any alignment.
template <class T>
T load(const std::byte* at) {
  T out;
  std::memcpy(&out, at, sizeof(T));
  return out;
}

inline constexpr uint64_t kNoIndex = UINT64_MAX;

/// What a message is about: "header", "metadata 'KEY'", "tensor 3".
struct Subject {
  const char* kind;
  uint64_t index = kNoIndex;   // stands in while the name is unknown
  std::string_view name = {};  // empty: unknown as yet
  int64_t header = -1;         // where a tensor's header starts, if that is worth saying
};

/// A position in the file's bytes that cannot leave them.
class Cursor {
 public:
  /// `file` stands for the file in messages.
  Cursor(std::span<const std::byte> bytes, std::string_view file, int64_t position = 0)
      : bytes_(bytes), file_(file), subject_{"header"}, position_(position) {}

  int64_t position() const { return position_; }
  int64_t size() const { return int64_t(bytes_.size()); }
  uint64_t remaining() const { return bytes_.size() - uint64_t(position_); }
  const std::byte* here() const { return bytes_.data() + position_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  void seek(int64_t position) { position_ = position; }
  void set_subject(const Subject& subject) { subject_ = subject; }

  /// The next T; `field` names it in the message when the file ends before.
  template <class T>
  T read(const char* field) {
    need(sizeof(T), field);
    const T out = load<T>(here());
    position_ += int64_t(sizeof(T));
    return out;
  }

  /// A u64 length and that many bytes.
  std::string_view read_string(const char* field);

  /// A key or name: a string of 1 to 65535 bytes.
  std::string_view read_name(const char* field);

  /// Skips `count` items of `item_bytes` > 0 each.
  void skip(uint64_t count, uint64_t item_bytes, const char* field);

  /// Refuses a count of items that cannot fit into the bytes left.
  void check_count(uint64_t count, uint64_t smallest_item, const char* field) const;

  /// Throws "FILE: SUBJECT: PROBLEM (at byte POSITION)".
  [[noreturn]] void fail(const std::string& problem, int64_t position,
                         ErrorKind kind = ErrorKind::kBadFile) const;
  [[noreturn]] void fail(const std::string& problem) const { fail(problem, position_); }

 private:
  void need(uint64_t bytes, const char* field) const;

  std::span<const std::byte> bytes_;
  std::string_view file_;
  Subject subject_;
  int64_t position_ = 0;
};

struct Header {
  uint32_t version;
  uint64_t tensors;
  uint64_t entries;
};

Header read_header(Cursor& cursor);

// What opening checks and what look-ups read again go the same way; the second time nothing fails.

/// The key or name that starts at `offset` of a validated file.
std::string_view name_at(std::span<const std::byte> bytes, int64_t offset);
/// The entry at the cursor, which stops at the first element of the value.
GgufEntry read_entry(Cursor& cursor, uint64_t index = kNoIndex);
/// Moves past the elements of the value, checking each.
void skip_elements(Cursor& cursor, const GgufValue& value);
/// The tensor whose header is at the cursor. Its `data_offset` is as in the file, from the start of
/// the data, until place() has made it an offset in the file and set `data`.
GgufTensor read_tensor(Cursor& cursor, uint64_t index = kNoIndex);
void place(std::span<const std::byte> bytes, int64_t data_offset, GgufTensor& tensor);

/// Where each of `count` entries or tensors starts; the cursor goes past them.
std::vector<int64_t> read_entries(Cursor& cursor, uint64_t count);
std::vector<int64_t> read_tensors(Cursor& cursor, uint64_t count);

/// The headers of the tensors, whose names have been read.
struct TensorHeaders {
  std::span<const int64_t> by_name;  // where each starts
  int64_t data_offset;
  int64_t alignment;
};

/// Checks that the data of each tensor is aligned, inside the file and apart from that of others.
/// The cursor is at the first header.
void check_places(Cursor cursor, const TensorHeaders& headers);

}  // namespace tw::models::gguf
