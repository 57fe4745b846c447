// What a tokenizer is made from: the vocabulary of a model file, not yet validated.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tilewright/core/error.h"
#include "tilewright/models/gguf.h"

namespace tw::models {

/// What a token is for, by its number in tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,      ///< stands for text that the vocabulary cannot express
  kControl = 3,      ///< structure, not text: <s>, <|im_start|>
  kUserDefined = 4,  ///< text that is always this one token
  kUnused = 5,
  kByte = 6,  ///< "<0xAB>", one byte (SentencePiece)
};

/// Which tokens have a role, and what is done around text; ids may still be out of range.
struct TokenizerSettings {
  std::optional<int64_t> bos_token_id, eos_token_id, unknown_token_id, padding_token_id;
  std::optional<int64_t> eot_token_id, eom_token_id;
  std::optional<bool> add_bos_token;     // absent: for "llama", and where the pre-tokenizer says so
  std::optional<bool> add_eos_token;     // absent: no
  std::optional<bool> add_space_prefix;  // absent: yes; only for "llama"
  /// Control tokens take the white space after them, except those of kKeepSpace in tokenizer.cc.
  bool strips_after_control = false;
};

/// The fields are those of the GGUF metadata "tokenizer.ggml.*", where they stand in the file's
/// bytes; lists may still have any length.
struct TokenizerData : TokenizerSettings {
  std::string_view model;      // "gpt2": byte-level BPE; "llama": SentencePiece BPE
  std::string_view pre;        // name of the pre-tokenizer of "gpt2"; empty: GPT-2's own
  GgufStrings tokens;          // by id; for "gpt2" bytes spelled as in byte_map.h
  GgufNumbers<float> scores;   // [tokens], or empty for "gpt2"; higher merges first
  GgufNumbers<int64_t> types;  // [tokens], TokenType, or empty: all normal
  GgufStrings merges;          // "left right", first merges first; only for "gpt2"
  /// Keeps the bytes alive; null: the caller does, as long as there is a tokenizer.
  std::shared_ptr<const void> owner;
};

/// A field of TokenizerData that breaks a rule. The message is "KEY: PROBLEM".
class TokenizerDataError : public Error {
 public:
  TokenizerDataError(const std::string& key, const std::string& problem,
                     ErrorKind kind = ErrorKind::kBadFile)
      : Error(kind, key + ": " + problem), key_(key), problem_(problem) {}
  /// The metadata key, "tokenizer.ggml.merges".
  const std::string& key() const noexcept { return key_; }
  const std::string& problem() const noexcept { return problem_; }

 private:
  std::string key_, problem_;
};

}  // namespace tw::models
