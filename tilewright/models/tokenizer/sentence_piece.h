// SentencePiece's byte-pair encoding (Kudo and Richardson, arXiv:1808.06226): write a space as
// U+2581, start from characters, and join the adjacent pair whose text is the token with the
// highest score until no pair is a token. Characters that end up in no token become byte tokens
// <0xAB>, or the unknown token (one for a whole run of them) where the vocabulary has no bytes.
//
// Text that is not UTF-8: each malformed byte is a character of its own.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tilewright/models/tokenizer/text_encoder.h"
#include "tilewright/models/tokenizer/token_table.h"
#include "tilewright/models/tokenizer/tokenizer_data.h"

namespace tw::models {

/// U+2581, which stands for a space in the vocabulary.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

/// The byte that a token "<0xAB>" stands for, or -1.
int byte_of_token(std::string_view text);

class SentencePieceEncoder final : public TextEncoder {
 public:
  /// Keeps views of data and tokens. `unknown` is the id of the unknown token, -1: none, text that
  /// cannot be expressed is left out. Throws TokenizerDataError for a score that is NaN and for a
  /// malformed byte token.
  SentencePieceEncoder(const TokenizerData& data, const TokenTable& tokens, int32_t unknown,
                       bool add_space_prefix);

  void encode(std::string_view text, std::vector<int32_t>& out) const override;

 private:
  struct Symbols;
  int32_t find(std::string_view text) const;
  void push_pair(Symbols& symbols, int32_t left) const;
  void merge(Symbols& symbols) const;
  void emit(const Symbols& symbols, std::vector<int32_t>& out) const;

  const TokenTable& tokens_;
  GgufNumbers<float> scores_;
  std::vector<bool> joinable_;            // [tokens]: may come out of a merge
  std::array<int32_t, 256> byte_tokens_;  // -1: none
  int32_t unknown_;
  bool add_space_prefix_;
  size_t longest_ = 0;  // of the tokens, in bytes
};

}  // namespace tw::models
