// Tokens by id and by text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tilewright/models/gguf.h"

namespace tw::models {

/// The texts of a vocabulary, where they stand in the file, and a hash table from text to id. Takes
/// 7 bytes for each token; in the file each has 8 and its text.
class TokenTable {
 public:
  /// `types` is empty or has one entry per token. Tokens of type kUnused whose text another token
  /// has are left out. Throws TokenizerDataError when two other tokens have the same text.
  TokenTable(const GgufStrings& tokens, const GgufNumbers<int64_t>& types);

  size_t size() const { return size_t(tokens_.size()); }
  std::string_view operator[](int32_t id) const {
    return tokens_.at_offset(starts_[size_t(id) / 2], id % 2 == 1);
  }

  /// How many bytes the texts take in the file, their lengths included.
  size_t bytes() const { return bytes_; }
  /// Where the text of a token starts in them: no two overlap.
  size_t position(int32_t id) const { return size_t((*this)[id].data() - (*this)[0].data()) + 8; }

  /// The id of the token with this text, or -1.
  int32_t find(std::string_view text) const;

 private:
  static constexpr uint32_t kEmpty = ~uint32_t(0);

  int32_t id_of(uint32_t slot) const { return int32_t(slot & id_mask_); }
  size_t start_of(uint64_t hash) const { return size_t((hash >> 32) * slots_.size() >> 32); }
  size_t after(size_t at) const { return at + 1 == slots_.size() ? 0 : at + 1; }
  void insert(int32_t id, const GgufNumbers<int64_t>& types);

  GgufStrings tokens_;
  size_t bytes_ = 0;
  // [tokens / 2, rounded up]: where every second token starts, behind the start of the first.
  std::vector<uint32_t> starts_;
  uint32_t id_mask_;  // above every id
  // Ids, with bits of the hash in what id_mask_ leaves free, or kEmpty. Linear probing; at most
  // four fifths are full.
  std::vector<uint32_t> slots_;
};

}  // namespace tw::models
