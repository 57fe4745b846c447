// GGUF files, versions 2 and 3, little-endian: metadata and tensors, read in place.
//
//   magic "GGUF", u32 version, u64 tensors, u64 metadata entries
//   per entry:  string key, u32 type, value      (string: u64 length, bytes)
//   per tensor: string name, u32 rank, u64 dims[rank], u32 type, u64 offset into the data
//   padding to general.alignment (32 unless the metadata says otherwise), then the data
//
// A file is hostile until parse() has returned: every count, length, type, dimension and offset is
// checked against the bytes there are. After that every view below is safe to read. Views point
// into the file's bytes and live as long as the GgufFile (or, for parse(), the caller's bytes).
//
// A GgufFile keeps where entries and tensors start, sorted by name, and reads the rest again when
// asked: 8 bytes for each entry of 14 or more, 16 while it is opened and then 8 for each tensor of
// 25 or more. So the memory that opening takes is less than two thirds of the file's size.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tilewright/core/dtype.h"
#include "tilewright/core/error.h"
#include "tilewright/core/mapped_file.h"

namespace tw::models {

/// The types of metadata values, by their number in the file.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// "u32", "string", ...
TW_API std::string_view name(GgufType type);
constexpr bool is_float(GgufType type) {
  return type == GgufType::kF32 || type == GgufType::kF64;
}
constexpr bool is_integer(GgufType type) {
  return type < GgufType::kF32 || type == GgufType::kU64 || type == GgufType::kI64;
}

/// A forward range over consecutive strings of the file. The strings need not be UTF-8.
class TW_API GgufStrings {
 public:
  class Iterator {
   public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    Iterator() = default;
    Iterator(const std::byte* at, int64_t left) : at_(at), left_(left) {}
    std::string_view operator*() const {
      return {reinterpret_cast<const char*>(at_ + 8), length()};
    }
    Iterator& operator++() {
      at_ += 8 + length();
      --left_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return left_ == other.left_; }

   private:
    friend class GgufStrings;
    uint64_t length() const {
      uint64_t out;
      std::memcpy(&out, at_, sizeof out);
      return out;
    }
    const std::byte* at_ = nullptr;  // the length of the next string
    int64_t left_ = 0;
  };

  GgufStrings() = default;
  GgufStrings(const std::byte* first, int64_t size) : first_(first), size_(size) {}
  int64_t size() const { return size_; }
  Iterator begin() const { return {first_, size_}; }
  Iterator end() const { return {}; }
  /// The string that starts, with its length, `offset` bytes behind the start of the first, or the
  /// one after it. Without a branch, which nobody could foresee.
  std::string_view at_offset(uint64_t offset, bool after) const {
    Iterator at(first_ + offset, size_);
    at.at_ += (8 + at.length()) & -uint64_t(after);
    return *at;
  }
  /// All of them at once, for random access.
  std::vector<std::string_view> to_vector() const { return {begin(), end()}; }

 private:
  const std::byte* first_ = nullptr;
  int64_t size_ = 0;
};

/// One metadata value, a scalar or an array, inside the file's bytes.
class TW_API GgufValue {
 public:
  GgufValue() = default;
  GgufValue(GgufType type, bool is_array, const std::byte* data, int64_t size)
      : type_(type), is_array_(is_array), data_(data), size_(size) {}

  bool is_array() const { return is_array_; }
  /// The type of the scalar, or of each element of an array (kArray: arrays in an array).
  GgufType element_type() const { return type_; }
  /// Number of elements; 1 for a scalar.
  int64_t size() const { return size_; }
  /// "u32", "array<string>", ...
  std::string type_name() const;

  /// Element i of integers or bools (false 0, true 1). A u64 above 2^63 - 1 wraps.
  int64_t as_int(int64_t i = 0) const;
  /// Element i of floats.
  double as_float(int64_t i = 0) const;
  /// The elements of a string or an array of strings.
  GgufStrings strings() const { return {data_, size_}; }

 private:
  GgufType type_ = GgufType::kU8;
  bool is_array_ = false;
  const std::byte* data_ = nullptr;  // first element, any alignment
  int64_t size_ = 0;
};

/// An array of integers (T = int64_t) or floats (T = float), whatever width they have in the file.
template <class T>
class GgufNumbers {
 public:
  GgufNumbers() = default;
  explicit GgufNumbers(const GgufValue& value) : value_(value) {}
  int64_t size() const { return value_.size(); }
  T operator[](int64_t i) const {
    if constexpr (std::is_integral_v<T>) {
      return T(value_.as_int(i));
    } else {
      return T(value_.as_float(i));
    }
  }
  std::vector<T> to_vector() const {
    std::vector<T> out;
    for (int64_t i = 0; i < size(); ++i) out.push_back((*this)[i]);
    return out;
  }

 private:
  GgufValue value_;
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
  int64_t offset = 0;  // of the entry, in bytes from the start of the file
};

struct GgufTensor {
  static constexpr int kMaxRank = 4;

  std::string_view name;
  DType dtype;
  int rank;                                  // 0 for a scalar
  std::array<int64_t, kMaxRank> dim_list;    // the file's order: [0] runs fastest
  std::array<int64_t, kMaxRank> shape_list;  // row-major order: [rank - 1] runs fastest
  int64_t elements;
  int64_t bytes;
  const std::byte* data;  // 8-byte aligned if the file's bytes are
  int64_t data_offset;    // of the data, in bytes from the start of the file
  int64_t header_offset;  // of the tensor's header

  /// Dimensions as ggml has them ("ne"): dims()[0] runs fastest.
  std::span<const int64_t> dims() const { return {dim_list.data(), size_t(rank)}; }
  /// Dimensions as PyTorch has them: the last runs fastest. [out, in] for a linear layer.
  std::span<const int64_t> shape() const { return {shape_list.data(), size_t(rank)}; }
};

/// A forward range over the entries or the tensors of a file, in the file's order. Each is read as
/// the iterator comes to it; the range and its iterators live as long as the bytes.
template <class Item>
class TW_API GgufRange {
 public:
  class TW_API Iterator {
   public:
    using value_type = Item;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using pointer = const Item*;
    using reference = const Item&;

    Iterator() = default;
    const Item& operator*() const { return item_; }
    const Item* operator->() const { return &item_; }
    Iterator& operator++() {
      --left_;
      read();
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return left_ == other.left_; }

   private:
    friend GgufRange;
    explicit Iterator(const GgufRange& range) : range_(range), left_(range.size_) { read(); }
    void read();  // item_, and moves range_.first_ behind it

    GgufRange range_;
    size_t left_ = 0;
    Item item_{};
  };

  GgufRange() = default;
  GgufRange(std::span<const std::byte> bytes, int64_t first, int64_t data_offset, size_t size)
      : bytes_(bytes), first_(first), data_offset_(data_offset), size_(size) {}
  size_t size() const { return size_; }
  Iterator begin() const { return Iterator(*this); }
  Iterator end() const { return {}; }

 private:
  std::span<const std::byte> bytes_;
  int64_t first_ = 0;        // where the first of them starts
  int64_t data_offset_ = 0;  // of the file
  size_t size_ = 0;
};

/// A validated GGUF file. Cheap to move; not copyable.
class TW_API GgufFile {
 public:
  /// Maps and parses `path`. Throws kIo, kBadFile, or kUnsupported (version 1, big-endian, split
  /// models, tensor types that tilewright does not read).
  static GgufFile open(const std::string& path);
  /// Parses bytes that the caller keeps alive; `name` stands for the file in messages.
  static GgufFile parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  int64_t size_bytes() const { return int64_t(bytes_.size()); }
  uint32_t version() const { return version_; }
  int64_t alignment() const { return alignment_; }
  /// Where tensor data starts, in bytes from the start of the file.
  int64_t data_offset() const { return data_offset_; }

  /// In the file's order.
  GgufRange<GgufEntry> metadata() const {
    return {bytes_, metadata_offset_, data_offset_, entries_by_key_.size()};
  }
  GgufRange<GgufTensor> tensors() const {
    return {bytes_, headers_offset_, data_offset_, tensors_by_name_.size()};
  }

  /// The entry with this key.
  std::optional<GgufEntry> find(std::string_view key) const;

  // Typed look-ups. find_* gives nothing when the key is absent; require_* throws kBadFile then.
  // Both throw kBadFile when the value has another type. Integers of any width are accepted where
  // the value fits; floats must be finite, except in arrays; find_ints also takes bools.
  std::optional<int64_t> find_int(std::string_view key) const;
  std::optional<uint32_t> find_u32(std::string_view key) const;
  std::optional<float> find_f32(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;
  std::optional<GgufNumbers<int64_t>> find_ints(std::string_view key) const;
  std::optional<GgufNumbers<float>> find_floats(std::string_view key) const;
  std::optional<GgufStrings> find_strings(std::string_view key) const;

  int64_t require_int(std::string_view key) const;
  uint32_t require_u32(std::string_view key) const;
  float require_f32(std::string_view key) const;
  bool require_bool(std::string_view key) const;
  std::string_view require_string(std::string_view key) const;
  GgufNumbers<int64_t> require_ints(std::string_view key) const;
  GgufNumbers<float> require_floats(std::string_view key) const;
  GgufStrings require_strings(std::string_view key) const;

  /// The tensor of this name.
  std::optional<GgufTensor> find_tensor(std::string_view name) const;
  /// The tensor of this name; throws kBadFile when there is none.
  GgufTensor require_tensor(std::string_view name) const;

  /// Gives back the memory that reading the tensor's data took; it can be read again. Nothing when
  /// the bytes are the caller's.
  void release(const GgufTensor& tensor) const;

  /// What keeps the bytes alive, for views that outlive the GgufFile; null after parse().
  std::shared_ptr<const void> owner() const { return file_; }

  /// For callers that check meaning: kBadFile, "FILE: metadata 'KEY': PROBLEM (at byte N)", or
  /// "(metadata at byte N)" where there is no such key.
  Error metadata_error(std::string_view key, const std::string& problem) const;
  /// The same for a tensor: "FILE: tensor 'NAME': PROBLEM (header at byte N)", or "(headers at byte
  /// N)".
  Error tensor_error(std::string_view name, const std::string& problem) const;

 private:
  GgufFile() = default;
  void check_split() const;
  std::optional<GgufValue> find_scalar(std::string_view key, bool (*accepts)(GgufType),
                                       const char* wanted) const;
  std::optional<GgufValue> find_array(std::string_view key, bool (*accepts)(GgufType),
                                      const char* wanted) const;

  std::shared_ptr<const MappedFile> file_;  // null after parse()
  std::span<const std::byte> bytes_;
  std::string name_;
  uint32_t version_ = 0;
  int64_t alignment_ = 0;
  int64_t metadata_offset_ = 0, headers_offset_ = 0;  // of the first entry, the first tensor
  int64_t data_offset_ = 0;
  std::vector<int64_t> entries_by_key_;   // where each starts in the file, sorted by key
  std::vector<int64_t> tensors_by_name_;  // where each header starts, sorted by name
};

}  // namespace tw::models
