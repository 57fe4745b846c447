// Tokenizers: text to the token ids that a language model reads, and back.
//
//   Tokenizer tokenizer = tokenizer_from_gguf(file);
//   std::vector<int32_t> ids = tokenizer.encode("Hello, world");
//   std::string text = tokenizer.decode(ids);
//
// Two kinds: byte-level BPE (byte_pair.h) and SentencePiece BPE (sentence_piece.h). Both give the
// same ids as the `tokenizers` package does for the same vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/models/tokenizer/tokenizer_data.h"

namespace tw::models {

struct EncodeOptions {
  /// Begin and end with the bos and eos tokens, where the model asks for them.
  bool add_special = true;
  /// Recognise control tokens written in the text. Off, "<s>" is three characters like any others:
  /// what untrusted text needs. User-defined tokens are always recognised.
  bool parse_special = false;
};

/// Immutable, and safe to use from several threads.
///
/// Texts, scores and types stay in the file's bytes (TokenizerData::owner). Beside them it takes 7
/// bytes for each token, 4 more for each special token, and 14 for each different merge; in the
/// file these have at least 8 and a text, a type, and 9 and both parts. All merges of one word of n
/// bytes are n - 1 at most, so that no file makes it take more than its lists have there, apart
/// from a few KiB.
class Tokenizer {
 public:
  /// Throws TokenizerDataError (kBadFile, kUnsupported) naming the field and index that breaks a
  /// rule: an empty vocabulary, a list of another length than tokens, ids out of range, repeated
  /// tokens, merges of absent tokens, NaN scores, an unknown model or pre-tokenizer.
  explicit Tokenizer(const TokenizerData& data);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// The tokens of `text`, which may be any bytes: malformed UTF-8 is encoded byte by byte. Special
  /// tokens are cut out first, leftmost and longest first. Throws kInvalidArgument for texts of
  /// 512 MiB and more.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The text of `ids` as UTF-8; bytes that form no character become U+FFFD. skip_special leaves
  /// out control and unknown tokens. Throws kInvalidArgument for an id out of range.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  /// The bytes that one token stands for, not always whole characters. Throws as decode() does.
  std::string token_bytes(int32_t id) const;

  /// The token as the vocabulary spells it. Throws as decode() does.
  std::string_view token_text(int32_t id) const;

  /// The id of the token that the vocabulary spells so, or -1.
  int32_t find(std::string_view token_text) const;

  int32_t vocab_size() const;
  TokenType type(int32_t id) const;
  /// Whether the token is structure rather than text: a control or unknown token.
  bool is_special(int32_t id) const;

  // Ids of tokens with a role; -1 where the model has none.
  int32_t bos_id() const;
  int32_t eos_id() const;
  int32_t eot_id() const;  // ends a turn of a chat; eos_id() if there is no other
  int32_t unknown_id() const;
  int32_t padding_id() const;
  bool adds_bos() const;
  bool adds_eos() const;

  /// Whether a model says with this token that its text is complete: eos, eot, eom, and control
  /// tokens well known for it, such as <|im_end|>.
  bool ends_text(int32_t id) const;
  /// All tokens that do, ascending.
  std::span<const int32_t> text_ends() const;

  /// Whether a space is put before text, which decoding takes away again ("llama" only).
  bool adds_space_prefix() const;
  /// "gpt2" or "llama".
  std::string_view model() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace tw::models
