// The merges of byte-pair encoding: which two tokens join to which, and which go first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/models/tokenizer/token_table.h"

namespace tw::models {

struct Merge {
  int32_t left, right, joined;  // token ids
};

/// The merges by rank (0 goes first), and the rank of a pair of tokens. A pair listed twice has
/// the later rank.
class MergeTable {
 public:
  static constexpr uint32_t kNoRank = ~uint32_t(0);

  /// `merges` are "left right". Throws TokenizerDataError for a line that is not two words, and
  /// for one whose left, right or joined text is not a token.
  MergeTable(std::span<const std::string> merges, const TokenTable& tokens);

  const Merge& operator[](uint32_t rank) const { return merges_[rank]; }

  uint32_t rank(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t at = start_of(key);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].rank == kNoRank || slots_[at].key == key) return slots_[at].rank;
    }
  }

 private:
  struct Slot {
    uint64_t key;
    uint32_t rank;  // kNoRank: empty
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  }
  // Fibonacci hashing: the top bits of the product are the well mixed ones.
  size_t start_of(uint64_t key) const { return size_t(key * 0x9E3779B97F4A7C15u >> shift_); }
  void insert(uint64_t key, uint32_t rank);

  std::vector<Merge> merges_;
  std::vector<Slot> slots_;  // a power of two, at most half full; linear probing
  int shift_;
};

}  // namespace tw::models
