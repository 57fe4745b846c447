// Pre-tokenizers: regular expressions that cut text into the words which byte-pair encoding then
// works on, one by one. The expressions are data, chosen by tokenizer.ggml.pre.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tw::models {

/// One family of byte-level vocabularies.
struct PreTokenizerSpec {
  std::vector<std::string_view> names;  // of tokenizer.ggml.pre
  /// Applied in turn, each to every piece that the one before left: a match is a piece, and so is
  /// the text between two matches. PCRE2 syntax; \s and \p{..} mean what Unicode 17 says.
  std::vector<std::string> patterns;
  bool thousands = false;  // then runs of decimal digits are cut before each three from the right
  bool nfc = false;        // text is composed first
  bool ignore_merges = false;  // a piece that is itself a token is that token, whatever the merges
  bool add_bos = false;        // where the model file does not say
};

/// All families, the one of GPT-2 first.
std::span<const PreTokenizerSpec> pre_tokenizers();

/// The family with this name, or nullptr.
const PreTokenizerSpec* find_pre_tokenizer(std::string_view name);

/// The compiled expressions of one family. Safe to use from several threads.
class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerSpec& spec);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  /// Cuts `text`, well-formed UTF-8, into pieces that join to it again. Time is linear in the
  /// text; should an expression need more it is stopped, and Error{kInvalidArgument} thrown.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  class Pattern;
  std::vector<Pattern> patterns_;
  std::unique_ptr<Pattern> digits_;  // runs that are cut in threes
};

}  // namespace tw::models
