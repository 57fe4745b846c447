#include "tilewright/models/tokenizer/special_matcher.h"

#include <algorithm>

namespace tw::models {

void SpecialMatcher::add(int32_t id, bool always) {
  if (!tokens_[id].empty()) entries_.push_back(always ? id : ~id);
}

void SpecialMatcher::sort() {
  std::sort(entries_.begin(), entries_.end(),
            [&](int32_t a, int32_t b) { return text_of(a) < text_of(b); });
  by_first_byte_ = {};
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    Range& range = by_first_byte_[uint8_t(text_of(entries_[i])[0])];
    if (range.first == range.last) range.first = i;
    range.last = i + 1;
    range.has_always = range.has_always || is_always(entries_[i]);
  }
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, size_t from, bool all) const {
  for (size_t at = from; at < text.size(); ++at) {
    const Range range = by_first_byte_[uint8_t(text[at])];
    if (range.first == range.last || !(all || range.has_always)) continue;
    const Match match = match_at(text, at, range, all);
    if (match.id >= 0) return match;
  }
  return {};
}

// Narrows the range of entries that agree with the text, byte by byte. The shortest of a range
// sorts first, so an entry that ends here is range.first.
SpecialMatcher::Match SpecialMatcher::match_at(std::string_view text, size_t at, Range range,
                                               bool all) const {
  Match best;
  for (size_t bytes = 1;; ++bytes) {
    const int32_t first = entries_[range.first];
    if (text_of(first).size() == bytes) {
      if (all || is_always(first)) best = {at, bytes, id_of(first)};
      ++range.first;
    }
    if (range.first == range.last || at + bytes == text.size()) return best;
    const uint8_t next = uint8_t(text[at + bytes]);
    const auto begin = entries_.begin() + range.first, end = entries_.begin() + range.last;
    const auto low = std::partition_point(
        begin, end, [&](int32_t entry) { return uint8_t(text_of(entry)[bytes]) < next; });
    const auto high = std::partition_point(
        low, end, [&](int32_t entry) { return uint8_t(text_of(entry)[bytes]) == next; });
    range.first = uint32_t(low - entries_.begin());
    range.last = uint32_t(high - entries_.begin());
    if (range.first == range.last) return best;
  }
}

}  // namespace tw::models
