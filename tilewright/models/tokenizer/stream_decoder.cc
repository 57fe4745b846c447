#include "tilewright/models/tokenizer/stream_decoder.h"

#include "tilewright/models/tokenizer/utf8.h"

namespace tw::models {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, StreamOptions options)
    : tokenizer_(&tokenizer),
      options_(options),
      byte_level_(tokenizer.model() == "gpt2"),
      drop_space_(options.at_start && tokenizer.adds_space_prefix()) {}

std::string StreamDecoder::push(int32_t id) {
  if (tokenizer_->is_special(id) && options_.skip_special) return {};
  pending_ += tokenizer_->token_bytes(id);
  if (drop_space_ && !pending_.empty()) {
    if (pending_[0] == ' ') pending_.erase(0, 1);
    drop_space_ = false;
  }
  return take(false);
}

std::string StreamDecoder::finish() {
  std::string out = take(true);
  drop_space_ = options_.at_start && tokenizer_->adds_space_prefix();
  return out;
}

// Moves what is decided out of pending_; all of it if this is the last call.
std::string StreamDecoder::take(bool last) {
  constexpr char32_t kReplacement = 0xFFFD;
  std::string out;
  size_t at = 0;
  while (at < pending_.size()) {
    const std::string_view rest = std::string_view(pending_).substr(at);
    const Utf8Step step = next_utf8(rest);
    if (step.kind == Utf8Step::Kind::kCutShort && !last) break;
    if (step.kind == Utf8Step::Kind::kCharacter) {
      out.append(rest.substr(0, step.bytes));
    } else {
      for (int i = 0; i < (byte_level_ ? 1 : step.bytes); ++i) append_utf8(out, kReplacement);
    }
    at += step.bytes;
  }
  pending_.erase(0, at);
  return out;
}

}  // namespace tw::models
