#include "tilewright/models/tokenizer/token_table.h"

#include <bit>
#include <functional>

#include "tilewright/core/printable.h"
#include "tilewright/models/tokenizer/tokenizer_data.h"

namespace tw::models {
namespace {

constexpr size_t kShownToken = 60;  // bytes of a token in a message

uint32_t hash_of(std::string_view text) {
  const size_t hash = std::hash<std::string_view>{}(text);
  return uint32_t(hash ^ (hash >> 32));
}

}  // namespace

TokenTable::TokenTable(std::span<const std::string> tokens, std::span<const int32_t> types)
    : tokens_(tokens), slots_(std::bit_ceil(2 * tokens.size() + 1), Slot{0, -1}) {
  for (size_t id = 0; id < tokens.size(); ++id) insert(int32_t(id), types);
}

int32_t TokenTable::find(std::string_view text) const {
  const uint32_t hash = hash_of(text);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].id >= 0; at = (at + 1) & mask) {
    if (slots_[at].hash == hash && tokens_[size_t(slots_[at].id)] == text) return slots_[at].id;
  }
  return -1;
}

void TokenTable::insert(int32_t id, std::span<const int32_t> types) {
  const auto unused = [&](int32_t i) {
    return !types.empty() && types[size_t(i)] == int32_t(TokenType::kUnused);
  };
  const std::string& text = tokens_[size_t(id)];
  const uint32_t hash = hash_of(text);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (; slots_[at].id >= 0; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.hash != hash || tokens_[size_t(slot.id)] != text) continue;
    if (unused(slot.id))
      slot.id = id;
    else if (!unused(id)) {
      throw TokenizerDataError("tokenizer.ggml.tokens",
                               "[" + std::to_string(id) + "] '" + printable(text, kShownToken) +
                                   "' repeats [" + std::to_string(slot.id) + "]");
    }
    return;
  }
  slots_[at] = {hash, id};
}

}  // namespace tw::models
