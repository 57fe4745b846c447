#include "tilewright/models/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tilewright/core/printable.h"
#include "tilewright/models/tokenizer/byte_map.h"
#include "tilewright/models/tokenizer/byte_pair.h"
#include "tilewright/models/tokenizer/sentence_piece.h"
#include "tilewright/models/tokenizer/special_matcher.h"
#include "tilewright/models/tokenizer/stream_decoder.h"
#include "tilewright/models/tokenizer/text_encoder.h"
#include "tilewright/models/tokenizer/token_table.h"
#include "tilewright/models/tokenizer/utf8.h"

namespace tw::models {
namespace {

// Names under which public models end a turn or a text, when the file does not say.
constexpr std::string_view kTurnEnds[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",
                                          "<|END_OF_TURN_TOKEN|>"};
constexpr std::string_view kTextEnds[] = {"<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<EOT>",
                                          "<|return|>"};

// Control tokens of Phi-3 that leave the white space after them.
constexpr std::string_view kKeepSpace[] = {"<s>", "<|endoftext|>"};

std::string key(const char* name) {
  return std::string("tokenizer.ggml.") + name;
}

// The list must have one entry per token, or none at all.
void check_length(const char* name, size_t size, size_t tokens) {
  if (size == 0 || size == tokens) return;
  throw TokenizerDataError(key(name), "has " + std::to_string(size) + " entries for " +
                                          std::to_string(tokens) + " tokens");
}

void check_lists(const TokenizerData& data) {
  const size_t count = size_t(data.tokens.size());
  if (count == 0) throw TokenizerDataError(key("tokens"), "the vocabulary is empty");
  if (count > size_t(INT32_MAX)) {
    throw TokenizerDataError(key("tokens"), "more than 2147483647 tokens", ErrorKind::kUnsupported);
  }
  check_length("scores", size_t(data.scores.size()), count);
  check_length("token_type", size_t(data.types.size()), count);
  for (int64_t i = 0; i < data.types.size(); ++i) {
    if (data.types[i] >= int64_t(TokenType::kUndefined) &&
        data.types[i] <= int64_t(TokenType::kByte)) {
      continue;
    }
    throw TokenizerDataError(key("token_type"), "[" + std::to_string(i) + "] is " +
                                                    std::to_string(data.types[i]) + ", not 0 to 6");
  }
}

// Checked here so that everything after may index by it.
const TokenizerData& checked(const TokenizerData& data) {
  if (data.model != "gpt2" && data.model != "llama") {
    throw TokenizerDataError(
        key("model"),
        "the tokenizer '" + printable(data.model, 60) + "' is not supported (known: gpt2, llama)",
        ErrorKind::kUnsupported);
  }
  check_lists(data);
  if (data.model == "llama" && data.scores.size() == 0) {
    throw TokenizerDataError(key("scores"), "is missing; a 'llama' tokenizer needs it");
  }
  return data;
}

}  // namespace

struct Tokenizer::State {
  explicit State(const TokenizerData& unchecked);

  TokenType type(int32_t id) const {
    return data.types.size() == 0 ? TokenType::kNormal : TokenType(data.types[id]);
  }
  int32_t special_id(const char* name, std::optional<int64_t> id) const;
  bool default_add_bos() const;
  bool strips_after(int32_t id) const;
  void fill_matcher();
  void find_ends();

  const TokenizerData data;
  const TokenTable table;
  const bool byte_level;  // "gpt2", else "llama"
  const bool add_space_prefix;
  int32_t bos, eos, unknown, padding, eot;
  bool add_bos, add_eos;
  std::vector<int32_t> ends;  // ascending
  SpecialMatcher special;     // user-defined tokens always, control tokens with parse_special
  std::unique_ptr<const TextEncoder> encoder;
};

Tokenizer::State::State(const TokenizerData& unchecked)
    : data(checked(unchecked)),
      table(data.tokens, data.types),
      byte_level(data.model == "gpt2"),
      add_space_prefix(!byte_level && data.add_space_prefix.value_or(true)),
      bos(special_id("bos_token_id", data.bos_token_id)),
      eos(special_id("eos_token_id", data.eos_token_id)),
      unknown(special_id("unknown_token_id", data.unknown_token_id)),
      padding(special_id("padding_token_id", data.padding_token_id)),
      eot(special_id("eot_token_id", data.eot_token_id)),
      add_bos(data.add_bos_token.value_or(default_add_bos()) && bos >= 0),
      add_eos(data.add_eos_token.value_or(false) && eos >= 0),
      special(table) {
  for (int32_t id = 0; unknown < 0 && !byte_level && id < data.types.size(); ++id)
    if (type(id) == TokenType::kUnknown) unknown = id;
  fill_matcher();
  find_ends();
  if (byte_level) {
    encoder = std::make_unique<BytePairEncoder>(data, table);
  } else {
    encoder = std::make_unique<SentencePieceEncoder>(data, table, unknown, add_space_prefix);
  }
}

int32_t Tokenizer::State::special_id(const char* name, std::optional<int64_t> id) const {
  if (!id.has_value()) return -1;
  if (*id >= 0 && *id < data.tokens.size()) return int32_t(*id);
  throw TokenizerDataError(key(name), "is " + std::to_string(*id) + ", but there are " +
                                          std::to_string(data.tokens.size()) + " tokens");
}

bool Tokenizer::State::default_add_bos() const {
  const PreTokenizerSpec* spec = byte_level ? find_pre_tokenizer(data.pre) : nullptr;
  return !byte_level || (spec != nullptr && spec->add_bos);
}

bool Tokenizer::State::strips_after(int32_t id) const {
  if (!data.strips_after_control || type(id) != TokenType::kControl) return false;
  return std::find(std::begin(kKeepSpace), std::end(kKeepSpace), table[id]) == std::end(kKeepSpace);
}

void Tokenizer::State::fill_matcher() {
  const auto is_special = [&](int32_t id) {
    return type(id) == TokenType::kUserDefined || type(id) == TokenType::kControl ||
           type(id) == TokenType::kUnknown;
  };
  const auto count = int32_t(data.types.size());
  size_t specials = 0;
  for (int32_t id = 0; id < count; ++id) specials += is_special(id) ? 1 : 0;
  special.reserve(specials);
  for (int32_t id = 0; id < count; ++id) {
    if (!is_special(id)) continue;
    if (table[id].size() > SpecialMatcher::kMaxBytes) {
      throw TokenizerDataError(key("tokens"), "[" + std::to_string(id) + "] has " +
                                                  std::to_string(table[id].size()) +
                                                  " bytes; special tokens may have " +
                                                  std::to_string(SpecialMatcher::kMaxBytes));
    }
    special.add(id, type(id) == TokenType::kUserDefined);
  }
  special.sort();
}

void Tokenizer::State::find_ends() {
  const auto by_name = [&](std::string_view name) {
    const int32_t id = table.find(name);
    const bool ends_it =
        id >= 0 && (type(id) == TokenType::kControl || type(id) == TokenType::kUserDefined);
    return ends_it ? id : -1;
  };
  for (const std::string_view name : kTurnEnds) {
    const int32_t id = by_name(name);
    if (eot < 0) eot = id;
    ends.push_back(id);
  }
  if (eot < 0) eot = eos;
  for (const std::string_view name : kTextEnds) ends.push_back(by_name(name));
  for (const int32_t id : {eos, eot, special_id("eom_token_id", data.eom_token_id)}) {
    ends.push_back(id);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  if (!ends.empty() && ends.front() < 0) ends.erase(ends.begin());
}

Tokenizer::Tokenizer(const TokenizerData& data) : state_(std::make_unique<State>(data)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() >= kMaxTextBytes) {
    throw Error(ErrorKind::kInvalidArgument, "encode: the text has " + std::to_string(text.size()) +
                                                 " bytes; 536870911 are the most");
  }
  const State& state = *state_;
  std::vector<int32_t> out;
  if (options.add_special && state.add_bos) out.push_back(state.bos);
  for (size_t at = 0; at < text.size();) {
    const SpecialMatcher::Match match = state.special.find(text, at, options.parse_special);
    const size_t end = std::min(match.start, text.size());
    if (end > at) state.encoder->encode(text.substr(at, end - at), out);
    at = end + match.bytes;
    if (match.id < 0) continue;
    out.push_back(match.id);
    if (state.strips_after(match.id)) at += leading_white_space(text.substr(at));
  }
  if (options.add_special && state.add_eos) out.push_back(state.eos);
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  StreamDecoder decoder(*this, {.skip_special = skip_special});
  std::string out;
  for (const int32_t id : ids) out += decoder.push(id);
  return out += decoder.finish();
}

std::string_view Tokenizer::token_text(int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw Error(ErrorKind::kInvalidArgument, "decode: token id " + std::to_string(id) +
                                                 " is not in [0, " + std::to_string(vocab_size()) +
                                                 ")");
  }
  return state_->table[id];
}

std::string Tokenizer::token_bytes(int32_t id) const {
  const std::string_view text = token_text(id);
  const TokenType kind = state_->type(id);
  std::string out;
  if (is_special(id) || (kind == TokenType::kUserDefined && state_->byte_level)) {
    out = text;
  } else if (state_->byte_level) {
    append_unspelled(out, text);
  } else if (kind == TokenType::kByte) {
    out = char(byte_of_token(text));
  } else {
    for (size_t at = 0; at < text.size();) {
      const bool space = text.compare(at, kSpaceMark.size(), kSpaceMark) == 0;
      out += space ? ' ' : text[at];
      at += space ? kSpaceMark.size() : 1;
    }
  }
  return out;
}

int32_t Tokenizer::find(std::string_view token_text) const {
  return state_->table.find(token_text);
}

int32_t Tokenizer::vocab_size() const {
  return int32_t(state_->data.tokens.size());
}
TokenType Tokenizer::type(int32_t id) const {
  token_text(id);  // checks the id
  return state_->type(id);
}
bool Tokenizer::is_special(int32_t id) const {
  return type(id) == TokenType::kControl || type(id) == TokenType::kUnknown;
}
int32_t Tokenizer::bos_id() const {
  return state_->bos;
}
int32_t Tokenizer::eos_id() const {
  return state_->eos;
}
int32_t Tokenizer::eot_id() const {
  return state_->eot;
}
int32_t Tokenizer::unknown_id() const {
  return state_->unknown;
}
int32_t Tokenizer::padding_id() const {
  return state_->padding;
}
bool Tokenizer::adds_bos() const {
  return state_->add_bos;
}
bool Tokenizer::adds_eos() const {
  return state_->add_eos;
}
bool Tokenizer::ends_text(int32_t id) const {
  return std::binary_search(state_->ends.begin(), state_->ends.end(), id);
}
std::span<const int32_t> Tokenizer::text_ends() const {
  return state_->ends;
}
bool Tokenizer::adds_space_prefix() const {
  return state_->add_space_prefix;
}
std::string_view Tokenizer::model() const {
  return state_->data.model;
}

}  // namespace tw::models
