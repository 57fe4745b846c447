#include "tilewright/models/tokenizer/special_matcher.h"

#include <algorithm>

namespace tw::models {

void SpecialMatcher::add(std::string text, int32_t id) {
  if (!text.empty()) entries_.emplace_back(std::move(text), id);
}

void SpecialMatcher::sort() {
  std::sort(entries_.begin(), entries_.end());
  by_first_byte_ = {};
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    Range& range = by_first_byte_[uint8_t(entries_[i].first[0])];
    if (range.first == range.last) range.first = i;
    range.last = i + 1;
  }
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    const Range range = by_first_byte_[uint8_t(text[at])];
    if (range.first == range.last) continue;
    const Match match = match_at(text, at, range);
    if (match.id >= 0) return match;
  }
  return {};
}

// Narrows the range of entries that agree with the text, byte by byte. The shortest of a range
// sorts first, so an entry that ends here is range.first.
SpecialMatcher::Match SpecialMatcher::match_at(std::string_view text, size_t at,
                                               Range range) const {
  Match best;
  for (size_t bytes = 1;; ++bytes) {
    const Entry& first = entries_[range.first];
    if (first.first.size() == bytes) {
      best = {at, bytes, first.second};
      ++range.first;
    }
    if (range.first == range.last || at + bytes == text.size()) return best;
    const uint8_t next = uint8_t(text[at + bytes]);
    const auto begin = entries_.begin() + range.first, end = entries_.begin() + range.last;
    const auto low = std::partition_point(
        begin, end, [&](const Entry& entry) { return uint8_t(entry.first[bytes]) < next; });
    const auto high = std::partition_point(
        low, end, [&](const Entry& entry) { return uint8_t(entry.first[bytes]) == next; });
    range = {uint32_t(low - entries_.begin()), uint32_t(high - entries_.begin())};
    if (range.first == range.last) return best;
  }
}

}  // namespace tw::models
