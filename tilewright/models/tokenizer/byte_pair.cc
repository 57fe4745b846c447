#include "tilewright/models/tokenizer/byte_pair.h"

#include <algorithm>
#include <functional>

#include "tilewright/core/printable.h"
#include "tilewright/models/tokenizer/byte_map.h"
#include "tilewright/models/tokenizer/normalize.h"
#include "tilewright/models/tokenizer/utf8.h"

namespace tw::models {
namespace {

// A token of the word so far, in a doubly linked list by index.
struct Symbol {
  int32_t id;             // -1: joined to the symbol before
  int32_t before, after;  // -1: none
  Merge merge = {};       // with the symbol after
};

const PreTokenizerSpec& spec_of(std::string_view name) {
  const PreTokenizerSpec* spec = find_pre_tokenizer(name);
  if (spec == nullptr) {
    throw TokenizerDataError("tokenizer.ggml.pre",
                             "the pre-tokenizer '" + printable(name, 60) + "' is not supported",
                             ErrorKind::kUnsupported);
  }
  return *spec;
}

}  // namespace

struct BytePairEncoder::Scratch {
  std::vector<Symbol> symbols;
  std::vector<uint64_t> queue;  // a heap of (rank, index of the left symbol), least on top
  std::string spelled;
};

BytePairEncoder::BytePairEncoder(const TokenizerData& data, const TokenTable& tokens)
    : spec_(spec_of(data.pre)),
      pre_tokenizer_(spec_),
      tokens_(tokens),
      merges_(data.merges, tokens) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelled;
    append_utf8(spelled, byte_character(uint8_t(byte)));
    byte_tokens_[size_t(byte)] = tokens.find(spelled);
  }
}

void BytePairEncoder::encode(std::string_view text, std::vector<int32_t>& out) const {
  Scratch scratch;
  while (!text.empty()) {
    const size_t well_formed = well_formed_prefix(text);
    encode_well_formed(text.substr(0, well_formed), scratch, out);
    text.remove_prefix(well_formed);
    size_t malformed = 0;
    while (malformed < text.size()) {
      const Utf8Step step = next_utf8(text.substr(malformed));
      if (step.kind == Utf8Step::Kind::kCharacter) break;
      malformed += step.bytes;
    }
    if (malformed > 0) encode_word(text.substr(0, malformed), scratch, out);
    text.remove_prefix(malformed);
  }
}

void BytePairEncoder::encode_well_formed(std::string_view text, Scratch& scratch,
                                         std::vector<int32_t>& out) const {
  std::string composed;
  if (spec_.nfc && !is_below_combining_marks(text)) {
    composed = nfc(text);
    text = composed;
  }
  for (const std::string_view word : pre_tokenizer_.split(text)) encode_word(word, scratch, out);
}

void BytePairEncoder::encode_word(std::string_view word, Scratch& scratch,
                                  std::vector<int32_t>& out) const {
  if (spec_.ignore_merges) {
    scratch.spelled.clear();
    append_spelled(scratch.spelled, word);
    const int32_t whole = tokens_.find(scratch.spelled);
    if (whole >= 0) {
      out.push_back(whole);
      return;
    }
  }
  std::vector<Symbol>& symbols = scratch.symbols;
  symbols.clear();
  for (const char byte : word) {
    const int32_t id = byte_tokens_[uint8_t(byte)];
    const auto index = int32_t(symbols.size());
    if (id >= 0) symbols.push_back({id, index - 1, index + 1, {}});
  }
  if (symbols.empty()) return;
  symbols.back().after = -1;
  merge_word(scratch);
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) out.push_back(symbol.id);
  }
}

void BytePairEncoder::push_pair(Scratch& scratch, int32_t left) const {
  Symbol& symbol = scratch.symbols[size_t(left)];
  symbol.merge = {};
  if (symbol.after < 0) return;
  symbol.merge = merges_.find(symbol.id, scratch.symbols[size_t(symbol.after)].id);
  if (symbol.merge.rank == Merge::kNone) return;
  scratch.queue.push_back(uint64_t(symbol.merge.rank) << 32 | uint32_t(left));
  std::push_heap(scratch.queue.begin(), scratch.queue.end(), std::greater<>{});
}

void BytePairEncoder::merge_word(Scratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<uint64_t>& queue = scratch.queue;
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) push_pair(scratch, int32_t(i));
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>{});
    const auto left_index = int32_t(uint32_t(queue.back()));
    const auto rank = uint32_t(queue.back() >> 32);
    queue.pop_back();
    Symbol& left = symbols[size_t(left_index)];
    // An earlier merge may have taken either side since the pair was queued.
    if (left.merge.rank != rank) continue;
    Symbol& right = symbols[size_t(left.after)];
    left.id = left.merge.joined;
    right.id = -1;
    right.merge = {};
    left.after = right.after;
    if (left.after >= 0) symbols[size_t(left.after)].before = left_index;
    push_pair(scratch, left_index);
    if (left.before >= 0) push_pair(scratch, left.before);
  }
}

}  // namespace tw::models
