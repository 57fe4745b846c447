#include "tilewright/models/tokenizer/token_table.h"

#include <bit>
#include <functional>

#include "tilewright/core/printable.h"
#include "tilewright/models/tokenizer/tokenizer_data.h"

namespace tw::models {
namespace {

constexpr size_t kShownToken = 60;  // bytes of a token in a message

uint64_t hash_of(std::string_view text) {
  return std::hash<std::string_view>{}(text);
}

}  // namespace

TokenTable::TokenTable(const GgufStrings& tokens, const GgufNumbers<int64_t>& types)
    : tokens_(tokens), id_mask_(std::bit_ceil(uint32_t(tokens.size()) + 1) - 1) {
  const size_t count = size_t(tokens.size());
  starts_.reserve(count / 2 + 1);
  slots_.assign(count + count / 4 + 1, kEmpty);
  int32_t id = 0;
  for (const std::string_view text : tokens) {
    if (bytes_ > UINT32_MAX) {
      throw TokenizerDataError("tokenizer.ggml.tokens", "more than 4294967295 bytes",
                               ErrorKind::kUnsupported);
    }
    if (id % 2 == 0) starts_.push_back(uint32_t(bytes_));
    bytes_ += sizeof(uint64_t) + text.size();
    insert(id++, types);
  }
}

int32_t TokenTable::find(std::string_view text) const {
  const uint64_t hash = hash_of(text);
  for (size_t at = start_of(hash); slots_[at] != kEmpty; at = after(at)) {
    const uint32_t slot = slots_[at];
    if (((slot ^ uint32_t(hash)) & ~id_mask_) == 0 && (*this)[id_of(slot)] == text)
      return id_of(slot);
  }
  return -1;
}

void TokenTable::insert(int32_t id, const GgufNumbers<int64_t>& types) {
  const auto unused = [&](int32_t i) {
    return types.size() > 0 && types[i] == int64_t(TokenType::kUnused);
  };
  const std::string_view text = (*this)[id];
  const uint64_t hash = hash_of(text);
  const uint32_t own = (uint32_t(hash) & ~id_mask_) | uint32_t(id);
  size_t at = start_of(hash);
  for (; slots_[at] != kEmpty; at = after(at)) {
    const uint32_t slot = slots_[at];
    if (((slot ^ own) & ~id_mask_) != 0 || (*this)[id_of(slot)] != text) continue;
    if (unused(id_of(slot)))
      slots_[at] = own;
    else if (!unused(id)) {
      throw TokenizerDataError("tokenizer.ggml.tokens",
                               "[" + std::to_string(id) + "] '" + printable(text, kShownToken) +
                                   "' repeats [" + std::to_string(id_of(slot)) + "]");
    }
    return;
  }
  slots_[at] = own;
}

}  // namespace tw::models
