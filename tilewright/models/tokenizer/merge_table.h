// The merges of byte-pair encoding: which two tokens join to which, and which go first.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tilewright/models/gguf.h"
#include "tilewright/models/tokenizer/token_table.h"

namespace tw::models {

/// What a pair of tokens becomes.
struct Merge {
  static constexpr uint32_t kNone = ~uint32_t(0);

  uint32_t rank = kNone;  // 0 goes first; kNone: the pair does not merge
  int32_t joined = -1;    // a token id
};

/// The merges by pair of tokens. A pair listed twice is one merge, with the later rank. Takes 13 or
/// 14 bytes for each merge; in the file it has 8 and its text, of 3 or more.
///
/// Pairs are in buckets, 2 to 4 in each on average where none is repeated. A pair is a number, left
/// id and right id side by side. Its upper bits are its tag; the bucket is the lower bits xor a
/// hash of the tag, so that the tag and the bucket together are the pair again, and a tag of 32
/// bits is enough.
class MergeTable {
 public:
  /// `merges` are "left right". Throws TokenizerDataError for a line that is not two words, and
  /// for one whose left, right or joined text is not a token.
  MergeTable(const GgufStrings& merges, const TokenTable& tokens);

  Merge find(int32_t left, int32_t right) const {
    const size_t place = place_of(pair_of(left, right));
    return place == entries_.size() ? Merge{} : entries_[place].merge;
  }

 private:
  struct Entry {
    uint32_t tag;
    Merge merge;
  };
  struct Line {
    std::string_view left;
    uint64_t pair;
    int32_t joined;
  };
  uint64_t pair_of(int32_t left, int32_t right) const {
    return uint64_t(uint32_t(left)) << id_bits_ | uint32_t(right);
  }
  uint32_t tag_of(uint64_t pair) const { return uint32_t(pair >> bucket_bits_); }
  // Fibonacci hashing: the top bits of the product are the well mixed ones.
  size_t bucket_of(uint64_t pair) const {
    const uint64_t hash = tag_of(pair) * 0x9E3779B97F4A7C15u >> (64 - bucket_bits_);
    return size_t((pair ^ hash) & ((uint64_t(1) << bucket_bits_) - 1));
  }
  /// In entries_, or behind them.
  size_t place_of(uint64_t pair) const {
    const size_t bucket = bucket_of(pair), last = starts_[bucket + 1];
    for (size_t at = starts_[bucket]; at != last; ++at)
      if (entries_[at].tag == tag_of(pair)) return at;
    return entries_.size();
  }
  Line parse(std::string_view line, size_t index, const TokenTable& tokens) const;
  /// Appends each different merge, and counts how many each bucket has.
  void read(const GgufStrings& merges, const TokenTable& tokens);
  void sort_into_buckets();
  void give_last_ranks(const GgufStrings& merges, const TokenTable& tokens);

  int id_bits_;
  int bucket_bits_;               // at least 1
  std::vector<uint32_t> starts_;  // [buckets + 1]: of each bucket in entries_
  std::vector<Entry> entries_;
};

}  // namespace tw::models
