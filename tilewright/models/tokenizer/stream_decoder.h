// Decoding while tokens are still arriving.
#pragma once

#include <cstdint>
#include <string>

#include "tilewright/models/tokenizer/tokenizer.h"

namespace tw::models {

struct StreamOptions {
  /// Leave out control and unknown tokens.
  bool skip_special = false;
  /// The text starts here: leave out the space that SentencePiece vocabularies put before it.
  bool at_start = true;
};

/// Decodes token by token. What push() and finish() return joins to what Tokenizer::decode() gives.
///
/// Bytes that form no character become U+FFFD: byte-level vocabularies one for each longest prefix
/// of a character, as Python's errors="replace" and the `tokenizers` package; SentencePiece
/// vocabularies one for each byte, as the sentencepiece package.
class StreamDecoder {
 public:
  /// Keeps a reference to the tokenizer.
  explicit StreamDecoder(const Tokenizer& tokenizer, StreamOptions options = {});

  /// The text that is certain after one more token: whole characters only. Throws as decode().
  std::string push(int32_t id);
  /// The rest: U+FFFD for a character that was never completed. Then ready for another text.
  std::string finish();

 private:
  std::string take(bool last);

  const Tokenizer* tokenizer_;
  StreamOptions options_;
  bool byte_level_;
  bool drop_space_;      // if the next byte is a space
  std::string pending_;  // bytes that may still become a character
};

}  // namespace tw::models
