// Byte-level byte-pair encoding, as in GPT-2 and most models since (Sennrich et al.,
// arXiv:1508.07909; Radford et al. 2019): cut the text into words, start each word from its bytes,
// and join the adjacent pair that has the lowest rank until no pair has one.
//
// Text that is not UTF-8: each run of malformed bytes is a word of its own, so that every byte
// gets its token. A byte without a token is left out.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/models/tokenizer/merge_table.h"
#include "tilewright/models/tokenizer/pre_tokenizer.h"
#include "tilewright/models/tokenizer/text_encoder.h"
#include "tilewright/models/tokenizer/token_table.h"
#include "tilewright/models/tokenizer/tokenizer_data.h"

namespace tw::models {

class BytePairEncoder final : public TextEncoder {
 public:
  /// Keeps views of both arguments. Throws TokenizerDataError for bad merges, or kUnsupported for
  /// a pre-tokenizer that is not in the table.
  BytePairEncoder(const TokenizerData& data, const TokenTable& tokens);

  void encode(std::string_view text, std::vector<int32_t>& out) const override;

 private:
  struct Scratch;
  void encode_well_formed(std::string_view text, Scratch& scratch, std::vector<int32_t>& out) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  void merge_word(Scratch& scratch) const;
  void push_pair(Scratch& scratch, int32_t left) const;

  const PreTokenizerSpec& spec_;
  PreTokenizer pre_tokenizer_;
  const TokenTable& tokens_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_tokens_;  // -1: none
};

}  // namespace tw::models
