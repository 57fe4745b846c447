#include "tilewright/models/tokenizer/merge_table.h"

#include <bit>

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

MergeTable::MergeTable(std::span<const std::string> merges, const TokenTable& tokens)
    : slots_(std::bit_ceil(2 * merges.size() + 2), Slot{0, kNoRank}),
      shift_(64 - std::countr_zero(slots_.size())) {
  merges_.reserve(merges.size());
  std::string joined;
  const auto id_of = [&](size_t index, std::string_view text) {
    const int32_t id = tokens.find(text);
    if (id < 0) {
      fail(index, merges[index],
           "needs the token '" + printable(text, kShownMerge) +
               "', which is not in tokenizer.ggml.tokens");
    }
    return id;
  };
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::string_view line = merges[i];
    const size_t space = line.find(' ');
    if (space == 0 || space >= line.size() - 1 || line.find(' ', space + 1) != line.npos) {
      fail(i, line, "is not two words with one space between them");
    }
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    joined.assign(left).append(right);
    const Merge merge = {id_of(i, left), id_of(i, right), id_of(i, joined)};
    insert(key_of(merge.left, merge.right), uint32_t(i));
    merges_.push_back(merge);
  }
}

void MergeTable::insert(uint64_t key, uint32_t rank) {
  size_t at = start_of(key);
  while (slots_[at].rank != kNoRank && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {key, rank};
}

}  // namespace tw::models
