// Writes GGUF bytes field by field, right or wrong as a test wants them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/models/gguf.h"

namespace tw::models {

class GgufBuilder {
 public:
  /// The fixed header.
  GgufBuilder(uint64_t tensors, uint64_t entries, uint32_t version = 3) {
    raw("GGUF").put(version).put(tensors).put(entries);
  }

  template <class T>
  GgufBuilder& put(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
    return *this;
  }
  GgufBuilder& raw(std::string_view text) {
    for (const char c : text) bytes_.push_back(std::byte(c));
    return *this;
  }
  GgufBuilder& string(std::string_view text) { return put(uint64_t(text.size())).raw(text); }
  GgufBuilder& key(std::string_view text, GgufType type) { return string(text).put(type); }
  template <class T>
  GgufBuilder& entry(std::string_view text, GgufType type, T value) {
    return key(text, type).put(value);
  }
  GgufBuilder& string_entry(std::string_view text, std::string_view value) {
    return key(text, GgufType::kString).string(value);
  }
  GgufBuilder& array(std::string_view text, GgufType element, uint64_t count) {
    return key(text, GgufType::kArray).put(element).put(count);
  }
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                      uint64_t offset) {
    string(name).put(uint32_t(dims.size()));
    for (const uint64_t dim : dims) put(dim);
    return put(type).put(offset);
  }
  GgufBuilder& pad(size_t alignment = 32) {
    while (bytes_.size() % alignment != 0) bytes_.push_back(std::byte(0));
    return *this;
  }
  GgufBuilder& zeros(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }
  GgufFile parse() const { return GgufFile::parse(bytes_, "t.gguf"); }

 private:
  std::vector<std::byte> bytes_;
};

/// Two entries and two tensors, of f32 [2, 3] and q4_0 [1, 64]; nothing wrong with it.
inline GgufBuilder small_file() {
  GgufBuilder out(2, 2);
  out.entry("a.count", GgufType::kU32, uint32_t(7)).string_entry("a.name", "x");
  out.tensor("w", {3, 2}, 0, 0).tensor("q", {64, 1}, 2, 32).pad();
  for (const float x : {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}) out.put(x);
  return out.pad().zeros(36);
}

}  // namespace tw::models
