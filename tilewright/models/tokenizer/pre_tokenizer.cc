#include "tilewright/models/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>

#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include "tilewright/core/error.h"
#include "tilewright/models/tokenizer/character_classes.h"

namespace tw::models {
namespace {

// Backtracks allowed: a constant, and so many per byte of text. Linear, and far above what any of
// the expressions needs.
constexpr uint64_t kMatchLimit = 10'000'000, kMatchLimitPerByte = 64;

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

std::string pcre_message(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

class PreTokenizer::Pattern {
 public:
  explicit Pattern(std::string_view pattern) : code_(nullptr, &pcre2_code_free) {
    const std::string text = expand_classes(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    if (code_ == nullptr) {
      throw Error(ErrorKind::kInternal, "pre-tokenizer expression '" + std::string(pattern) +
                                            "': " + pcre_message(error) + " at offset " +
                                            std::to_string(offset));
    }
    // Where no memory may be made executable this fails, and the interpreter does the same work.
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
  }

  // Appends the pieces that end before each three digits from the right of a run. A look-ahead
  // would say the same, in time that grows with the square of the run.
  void split_thousands(std::string_view text, pcre2_match_data* data, pcre2_match_context* limits,
                       std::vector<std::string_view>& pieces) const {
    size_t done = 0;
    const auto cut = [&](size_t at) {
      if (at > done) pieces.push_back(text.substr(done, at - done));
      done = std::max(done, at);
    };
    for (size_t from = 0; from < text.size() && find(text, from, data, limits);) {
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
      const size_t begin = bounds[0];
      from = bounds[1];
      const auto starts_character = [&](size_t i) { return (text[i] & 0xC0) != 0x80; };
      size_t left = 0;  // digits
      for (size_t i = begin; i < from; ++i) left += size_t(starts_character(i));
      for (size_t i = begin; i < from; ++i)
        if (starts_character(i) && left-- % 3 == 0) cut(i);
    }
    cut(text.size());
  }

  // Appends the pieces of `text` to `pieces`.
  void split(std::string_view text, pcre2_match_data* data, pcre2_match_context* limits,
             std::vector<std::string_view>& pieces) const {
    size_t done = 0;
    const auto piece = [&](size_t from, size_t to) {
      if (to > from) pieces.push_back(text.substr(from, to - from));
    };
    while (done < text.size() && find(text, done, data, limits)) {
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
      piece(done, bounds[0]);
      piece(bounds[0], bounds[1]);
      done = bounds[1];
    }
    piece(done, text.size());
  }

 private:
  bool find(std::string_view text, size_t from, pcre2_match_data* data,
            pcre2_match_context* limits) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const auto match = [&](uint32_t options) {
      return pcre2_match(code_.get(), subject, text.size(), from,
                         options | PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data, limits);
    };
    int found = match(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    if (found < 0) {
      throw Error(ErrorKind::kInvalidArgument,
                  "encode: the pre-tokenizer gave up on this text: " + pcre_message(found));
    }
    return true;
  }

  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code_;
};

PreTokenizer::PreTokenizer(const PreTokenizerSpec& spec) {
  for (const std::string& pattern : spec.patterns) patterns_.emplace_back(pattern);
  if (spec.thousands) digits_ = std::make_unique<Pattern>(R"(\p{Nd}+)");
}
PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  if (text.empty()) return pieces;
  const MatchContext limits(pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  // One pair of offsets: groups need not be reported.
  const MatchData data(pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  if (limits == nullptr || data == nullptr) throw std::bad_alloc();
  const uint64_t limit = kMatchLimit + kMatchLimitPerByte * text.size();
  pcre2_set_match_limit(limits.get(), uint32_t(std::min<uint64_t>(limit, UINT32_MAX)));

  pieces.push_back(text);
  std::vector<std::string_view> finer;
  for (const Pattern& pattern : patterns_) {
    finer.clear();
    finer.reserve(pieces.size());
    for (const std::string_view piece : pieces)
      pattern.split(piece, data.get(), limits.get(), finer);
    pieces.swap(finer);
  }
  if (digits_) {
    finer.clear();
    for (const std::string_view piece : pieces)
      digits_->split_thousands(piece, data.get(), limits.get(), finer);
    pieces.swap(finer);
  }
  return pieces;
}

const PreTokenizerSpec* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizerSpec& spec : pre_tokenizers()) {
    if (std::find(spec.names.begin(), spec.names.end(), name) != spec.names.end()) return &spec;
  }
  return nullptr;
}

}  // namespace tw::models
