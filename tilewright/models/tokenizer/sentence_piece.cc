#include "tilewright/models/tokenizer/sentence_piece.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <queue>
#include <string>

#include "tilewright/core/printable.h"
#include "tilewright/models/tokenizer/utf8.h"

namespace tw::models {
namespace {

// A piece of the text, in a doubly linked list by index.
struct Piece {
  int32_t start, bytes;   // in the text; 0 bytes: joined to the symbol before
  int32_t before, after;  // -1: none
  int32_t id;             // -1: not a token
};

struct Pair {
  float score;
  int32_t left;                              // index of the left symbol
  int32_t bytes;                             // of both together
  int32_t id;                                // of both together
  bool operator<(const Pair& other) const {  // the top of the queue is the greatest
    return score != other.score ? score < other.score : left > other.left;
  }
};

}  // namespace

struct SentencePieceEncoder::Symbols {
  std::string_view text;
  std::vector<Piece> list;
  std::priority_queue<Pair> queue;
  std::string_view text_of(const Piece& symbol) const {
    return text.substr(size_t(symbol.start), size_t(symbol.bytes));
  }
};

int byte_of_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(&text[3], &text[5], byte, 16);
  return error == std::errc() && end == &text[5] && byte >= 0 ? byte : -1;
}

SentencePieceEncoder::SentencePieceEncoder(const TokenizerData& data, const TokenTable& tokens,
                                           int32_t unknown, bool add_space_prefix)
    : tokens_(tokens),
      scores_(data.scores),
      joinable_(tokens.size(), true),
      unknown_(unknown),
      add_space_prefix_(add_space_prefix) {
  byte_tokens_.fill(-1);
  for (int32_t id = 0; id < int32_t(tokens.size()); ++id) {
    const std::string_view text = tokens[id];
    if (std::isnan(scores_[id])) {
      throw TokenizerDataError("tokenizer.ggml.scores", "[" + std::to_string(id) + "] is NaN");
    }
    const auto type = data.types.size() == 0 ? TokenType::kNormal : TokenType(data.types[id]);
    if (type == TokenType::kByte) {
      const int byte = byte_of_token(text);
      if (byte < 0) {
        throw TokenizerDataError("tokenizer.ggml.tokens",
                                 "[" + std::to_string(id) + "] '" + printable(text, 60) +
                                     "' has the type of a byte but is not <0x00> to <0xFF>");
      }
      byte_tokens_[size_t(byte)] = id;
    }
    joinable_[size_t(id)] =
        type != TokenType::kByte && type != TokenType::kControl && type != TokenType::kUnknown;
    if (joinable_[size_t(id)]) longest_ = std::max(longest_, text.size());
  }
}

int32_t SentencePieceEncoder::find(std::string_view text) const {
  if (text.size() > longest_) return -1;
  const int32_t id = tokens_.find(text);
  return id >= 0 && joinable_[size_t(id)] ? id : -1;
}

void SentencePieceEncoder::encode(std::string_view text, std::vector<int32_t>& out) const {
  if (text.empty()) return;
  std::string marked(add_space_prefix_ ? kSpaceMark : std::string_view());
  for (const char byte : text) {
    if (byte == ' ')
      marked += kSpaceMark;
    else
      marked += byte;
  }
  Symbols symbols;
  symbols.text = marked;
  for (size_t at = 0; at < marked.size();) {
    const Utf8Step step = next_utf8(symbols.text.substr(at));
    const size_t bytes = step.kind == Utf8Step::Kind::kCharacter ? step.bytes : 1;
    const auto index = int32_t(symbols.list.size());
    symbols.list.push_back(
        {int32_t(at), int32_t(bytes), index - 1, index + 1, find(symbols.text.substr(at, bytes))});
    at += bytes;
  }
  symbols.list.back().after = -1;
  merge(symbols);
  emit(symbols, out);
}

void SentencePieceEncoder::push_pair(Symbols& symbols, int32_t left) const {
  const Piece& symbol = symbols.list[size_t(left)];
  if (symbol.after < 0) return;
  const int32_t bytes = symbol.bytes + symbols.list[size_t(symbol.after)].bytes;
  const int32_t id = find(symbols.text.substr(size_t(symbol.start), size_t(bytes)));
  if (id >= 0) symbols.queue.push({scores_[id], left, bytes, id});
}

void SentencePieceEncoder::merge(Symbols& symbols) const {
  for (size_t i = 0; i + 1 < symbols.list.size(); ++i) push_pair(symbols, int32_t(i));
  while (!symbols.queue.empty()) {
    const Pair pair = symbols.queue.top();
    symbols.queue.pop();
    Piece& left = symbols.list[size_t(pair.left)];
    // An earlier merge may have taken or lengthened either side since the pair was queued.
    if (left.bytes == 0 || left.after < 0) continue;
    Piece& right = symbols.list[size_t(left.after)];
    if (left.bytes + right.bytes != pair.bytes) continue;

    left.bytes = pair.bytes;
    left.id = pair.id;
    right.bytes = 0;
    left.after = right.after;
    if (left.after >= 0) symbols.list[size_t(left.after)].before = pair.left;
    push_pair(symbols, pair.left);
    if (left.before >= 0) push_pair(symbols, left.before);
  }
}

void SentencePieceEncoder::emit(const Symbols& symbols, std::vector<int32_t>& out) const {
  bool in_unknown = false;
  for (int32_t i = 0; i >= 0; i = symbols.list[size_t(i)].after) {
    const Piece& symbol = symbols.list[size_t(i)];
    const std::string_view text = symbols.text_of(symbol);
    const bool known = symbol.id >= 0;
    const bool spelled = !known && std::all_of(text.begin(), text.end(), [&](char byte) {
      return byte_tokens_[uint8_t(byte)] >= 0;
    });
    if (known) out.push_back(symbol.id);
    if (spelled) {
      for (const char byte : text) out.push_back(byte_tokens_[uint8_t(byte)]);
    }
    if (!known && !spelled && !in_unknown && unknown_ >= 0) out.push_back(unknown_);
    in_unknown = !known && !spelled;
  }
}

}  // namespace tw::models
