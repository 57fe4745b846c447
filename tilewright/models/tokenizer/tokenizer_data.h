// What a tokenizer is made from: the vocabulary of a model file, not yet validated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/core/error.h"

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

/// The fields are those of the GGUF metadata "tokenizer.ggml.*"; ids may still be out of range and
/// lists of any length.
struct TokenizerData {
  std::string model;                // "gpt2": byte-level BPE; "llama": SentencePiece BPE
  std::string pre;                  // name of the pre-tokenizer of "gpt2"; empty: GPT-2's own
  std::vector<std::string> tokens;  // by id; for "gpt2" bytes spelled as in byte_map.h
  std::vector<float> scores;        // [tokens], or empty for "gpt2"; higher merges first
  std::vector<int32_t> types;       // [tokens], TokenType, or empty: all normal
  std::vector<std::string> merges;  // "left right", first merges first; only for "gpt2"
  std::optional<int64_t> bos_token_id, eos_token_id, unknown_token_id, padding_token_id;
  std::optional<int64_t> eot_token_id, eom_token_id;
  std::optional<bool> add_bos_token;     // absent: for "llama", and where the pre-tokenizer says so
  std::optional<bool> add_eos_token;     // absent: no
  std::optional<bool> add_space_prefix;  // absent: yes; only for "llama"
  /// Control tokens take the white space after them, except those of kKeepSpace in tokenizer.cc.
  bool strips_after_control = false;
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
