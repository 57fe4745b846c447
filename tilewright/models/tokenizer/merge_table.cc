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

// Different merges that join to one word are fewer than its bytes.
size_t most_merges(const GgufStrings& merges, const TokenTable& tokens) {
  return std::min(size_t(merges.size()), tokens.bytes() - sizeof(uint64_t) * tokens.size());
}

}  // namespace

MergeTable::MergeTable(const GgufStrings& merges, const TokenTable& tokens)
    : id_bits_(int(std::bit_width(tokens.size()))),
      bucket_bits_(
          std::max({1, 2 * id_bits_ - 32, int(std::bit_width(most_merges(merges, tokens))) - 2})),
      starts_((size_t(1) << bucket_bits_) + 1, 0) {
  read(merges, tokens);
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  sort_into_buckets();
  if (entries_.size() < size_t(merges.size())) give_last_ranks(merges, tokens);
}

MergeTable::Line MergeTable::parse(std::string_view line, size_t index,
                                   const TokenTable& tokens) const {
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
  const int32_t left_id = id_of(left);
  return {left, pair_of(left_id, id_of(right)), id_of(std::string(left).append(right))};
}

void MergeTable::read(const GgufStrings& merges, const TokenTable& tokens) {
  entries_.reserve(most_merges(merges, tokens));
  // Which merges are known, one bit for each: the joined word, and where it is cut.
  std::vector<bool> known(tokens.bytes());
  size_t index = 0;
  for (const std::string_view text : merges) {
    const Line line = parse(text, index++, tokens);
    auto is_known = known[tokens.position(line.joined) + line.left.size()];
    if (is_known) continue;
    is_known = true;
    // Until it is sorted, an entry's place says its rank, `rank` its bucket; `joined` is negative.
    const size_t bucket = bucket_of(line.pair);
    entries_.push_back({tag_of(line.pair), {uint32_t(bucket), ~line.joined}});
    ++starts_[bucket + 1];
  }
}

void MergeTable::give_last_ranks(const GgufStrings& merges, const TokenTable& tokens) {
  uint32_t index = 0;
  for (const std::string_view text : merges) {
    entries_[place_of(parse(text, index, tokens).pair)].merge.rank = index;
    ++index;
  }
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

}  // namespace tw::models
