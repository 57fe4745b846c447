// Finds the tokens that are matched in the text itself, before anything else looks at it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tw::models {

/// Leftmost-longest search for a set of strings.
class SpecialMatcher {
 public:
  /// The longest string that may be searched for, in bytes. Bounds the work per byte of text.
  static constexpr size_t kMaxBytes = 1024;

  struct Match {
    size_t start = std::string_view::npos;  // npos: none
    size_t bytes = 0;
    int32_t id = -1;
  };

  /// Searches for `text` from now on. Throws nothing; the caller checks kMaxBytes. Empty strings
  /// match nowhere. Call sort() after the last.
  void add(std::string text, int32_t id);
  void sort();

  /// The first match in `text` at or after `from`, the longest of those that start there.
  Match find(std::string_view text, size_t from) const;

 private:
  using Entry = std::pair<std::string, int32_t>;
  struct Range {
    uint32_t first = 0, last = 0;
  };
  Match match_at(std::string_view text, size_t at, Range range) const;

  std::vector<Entry> entries_;              // sorted by text
  std::array<Range, 256> by_first_byte_{};  // entries that start with this byte
};

}  // namespace tw::models
