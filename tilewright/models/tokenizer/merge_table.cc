#include "tilewright/models/tokenizer/merge_table.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include "tilewright/core/printable.h"
#include "tilewright/models/tokenizer/tokenizer_data.h"

namespace tw::models {
namespace {

constexpr size_t kShownMerge = 60;  // bytes of a merge in a message

[[noreturn]] void fail(size_t index, std::string_view text, const std::string& problem) {
  throw TokenizerDataError(
      "tokenizer.ggml.merges",
      "[" + std::to_string(index) + "] '" + printable(text, kShownMerge) + "' " + problem);
}

}  // namespace

MergeTable::MergeTable(const GgufStrings& merges, const TokenTable& tokens)
    : id_bits_(int(std::bit_width(tokens.size()))),
      bucket_bits_(
          std::max({1, 2 * id_bits_ - 32, int(std::bit_width(uint64_t(merges.size()))) - 4})),
      starts_((size_t(1) << bucket_bits_) + 1, 0) {
  entries_.reserve(size_t(merges.size()));
  std::string joined;
  for (const std::string_view line : merges) {
    const size_t index = entries_.size();
    const auto id_of = [&](std::string_view text) {
      const int32_t id = tokens.find(text);
      if (id < 0) {
        fail(index, line,
             "needs the token '" + printable(text, kShownMerge) +
                 "', which is not in tokenizer.ggml.tokens");
      }
      return id;
    };
    const size_t space = line.find(' ');
    if (space == 0 || space >= line.size() - 1 || line.find(' ', space + 1) != line.npos) {
      fail(index, line, "is not two words with one space between them");
    }
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    joined.assign(left).append(right);
    const int32_t left_id = id_of(left);
    const uint64_t pair = pair_of(left_id, id_of(right));
    // Until the entries are sorted, their place says the rank, and `rank` their bucket.
    const size_t bucket = bucket_of(pair);
    entries_.push_back({tag_of(pair), {uint32_t(bucket), id_of(joined)}});
    ++starts_[bucket + 1];
  }
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  sort_into_buckets();
}

// In place (McIlroy, Bostic and McIlroy, "Engineering radix sort", 1993): takes up an entry and
// puts it where its bucket has room, then the one that was there, until the first place is filled.
void MergeTable::sort_into_buckets() {
  std::vector<uint32_t> room(starts_.begin(), starts_.end() - 1);
  for (size_t bucket = 0; bucket < room.size(); ++bucket) {
    while (room[bucket] < starts_[bucket + 1]) {
      uint32_t rank = room[bucket];
      Entry entry = entries_[rank];
      for (bool is_home = false; !is_home;) {
        const uint32_t home = entry.merge.rank, to = room[home]++;
        entry.merge.rank = rank;
        std::swap(entry, entries_[to]);
        is_home = home == bucket;
        rank = to;
      }
    }
  }
  for (size_t bucket = 0; bucket < room.size(); ++bucket) {
    std::sort(entries_.begin() + starts_[bucket], entries_.begin() + starts_[bucket + 1],
              [](const Entry& a, const Entry& b) {
                return a.tag != b.tag ? a.tag < b.tag : a.merge.rank > b.merge.rank;
              });
  }
}

Merge MergeTable::find(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  const size_t bucket = bucket_of(pair);
  const uint32_t tag = tag_of(pair);
  const Entry* first = entries_.data() + starts_[bucket];
  // A binary search without branches for the first entry of this tag.
  for (uint32_t count = starts_[bucket + 1] - starts_[bucket]; count > 0;) {
    const uint32_t half = count / 2;
    first += first[half].tag < tag ? count - half : 0;
    count = half;
  }
  const bool found = first != entries_.data() + starts_[bucket + 1] && first->tag == tag;
  return found ? first->merge : Merge{};
}

}  // namespace tw::models
