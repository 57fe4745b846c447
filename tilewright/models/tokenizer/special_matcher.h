// Finds the tokens that are matched in the text itself, before anything else looks at it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tilewright/models/tokenizer/token_table.h"

namespace tw::models {

/// Leftmost-longest search for a set of tokens. Takes 4 bytes for each.
class SpecialMatcher {
 public:
  /// The longest token that may be searched for, in bytes. Bounds the work per byte of text.
  static constexpr size_t kMaxBytes = 1024;

  struct Match {
    size_t start = std::string_view::npos;  // npos: none
    size_t bytes = 0;
    int32_t id = -1;
  };

  /// Keeps a reference to the tokens.
  explicit SpecialMatcher(const TokenTable& tokens) : tokens_(tokens) {}

  /// Searches for the text of token `id` from now on: in every search, or only in those for all.
  /// Throws nothing; the caller checks kMaxBytes. Empty texts match nowhere. Call sort() after the
  /// last.
  void reserve(size_t count) { entries_.reserve(count); }
  void add(int32_t id, bool always);
  void sort();

  /// The first match in `text` at or after `from`, the longest of those that start there. `all`:
  /// also of tokens that are not always searched for.
  Match find(std::string_view text, size_t from, bool all) const;

 private:
  struct Range {
    uint32_t first = 0, last = 0;
    bool has_always = false;
  };
  static bool is_always(int32_t entry) { return entry >= 0; }
  static int32_t id_of(int32_t entry) { return is_always(entry) ? entry : ~entry; }
  std::string_view text_of(int32_t entry) const { return tokens_[id_of(entry)]; }
  Match match_at(std::string_view text, size_t at, Range range, bool all) const;

  const TokenTable& tokens_;
  std::vector<int32_t> entries_;            // ids, or ~id if not always; sorted by text
  std::array<Range, 256> by_first_byte_{};  // entries that start with this byte
};

}  // namespace tw::models
