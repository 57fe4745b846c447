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
          std::max({1, 2 * id_bits_ - 32, int(std::bit_width(uint64_t(merges.size()))) - 2})),
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
    // Until it is sorted, an entry's place says its rank, `rank` its bucket; `joined` is negative.
    const size_t bucket = bucket_of(pair);
    entries_.push_back({tag_of(pair), {uint32_t(bucket), ~id_of(joined)}});
    ++starts_[bucket + 1];
  }
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  sort_into_buckets();
  sort_buckets();
}

// In place (McIlroy, Bostic and McIlroy, "Engineering radix sort", 1993): takes up an entry and
// puts it where its bucket has room, then the one that was there, until the first place is filled.
void MergeTable::sort_into_buckets() {
  for (uint32_t first = 0; first < entries_.size(); ++first) {
    if (entries_[first].merge.joined >= 0) continue;
    Entry entry = entries_[first];
    uint32_t rank = first, to;
    do {
      to = starts_[entry.merge.rank]++;
      entry.merge = {rank, ~entry.merge.joined};
      std::swap(entry, entries_[to]);
      rank = to;
    } while (to != first);
  }
  // Each start has moved to the next one.
  std::copy_backward(starts_.begin(), starts_.end() - 1, starts_.end());
  starts_[0] = 0;
}

void MergeTable::sort_buckets() {
  auto end = entries_.begin();  // of what is kept
  for (size_t bucket = 0; bucket + 1 < starts_.size(); ++bucket) {
    const auto first = entries_.begin() + starts_[bucket];
    const auto last = entries_.begin() + starts_[bucket + 1];
    std::sort(first, last, [](const Entry& a, const Entry& b) {
      return a.tag != b.tag ? a.tag < b.tag : a.merge.rank > b.merge.rank;
    });
    starts_[bucket] = uint32_t(end - entries_.begin());
    for (auto at = first; at != last; ++at)
      if (at == first || at->tag != at[-1].tag) *end++ = *at;
  }
  starts_.back() = uint32_t(end - entries_.begin());
}

}  // namespace tw::models
