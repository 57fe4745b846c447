// Tokenizers from hostile vocabularies, and hostile text for those that are accepted. An input that
// starts with "GGUF" is a file; any other is read as a vocabulary and a text, see small_vocabulary.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <fuzzer/FuzzedDataProvider.h>

#include "tests/unit/models/vocabulary.h"
#include "tilewright/core/error.h"
#include "tilewright/models/gguf.h"
#include "tilewright/models/tokenizer/byte_map.h"
#include "tilewright/models/tokenizer/from_gguf.h"
#include "tilewright/models/tokenizer/pre_tokenizer.h"
#include "tilewright/models/tokenizer/stream_decoder.h"

namespace {

using tw::models::StreamDecoder;
using tw::models::Tokenizer;
using tw::models::Vocabulary;

void require(bool holds) {
  if (!holds) std::abort();
}

// What has to hold for any text. Without special tokens, a vocabulary that has every byte gives
// every byte back.
void exercise(const Tokenizer& tokenizer, const std::string& text, bool gives_back) {
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.encode(text, {.parse_special = parse_special});
    StreamDecoder decoder(tokenizer);
    std::string streamed, bytes;
    for (const int32_t id : ids) {
      require(id >= 0 && id < tokenizer.vocab_size());
      bytes += tokenizer.token_bytes(id);
      streamed += decoder.push(id);
    }
    streamed += decoder.finish();
    require(streamed == tokenizer.decode(ids));
    if (gives_back) require(bytes == text);
  }
}

std::string word(FuzzedDataProvider& in) {
  return in.ConsumeRandomLengthString(12);
}

Vocabulary small_vocabulary(FuzzedDataProvider& in, bool* gives_back) {
  Vocabulary data;
  const bool byte_level = in.ConsumeBool();
  data.model = byte_level ? "gpt2" : "llama";
  const auto families = tw::models::pre_tokenizers();
  const auto& family = families[in.ConsumeIntegralInRange<size_t>(0, families.size() - 1)];
  data.pre = family.names[0];
  *gives_back = byte_level && in.ConsumeBool() && !family.nfc;
  for (int byte = 0; byte < 256 && *gives_back; ++byte) {
    const char character = char(byte);
    tw::models::append_spelled(data.tokens.emplace_back(), {&character, 1});
  }
  for (int left = in.ConsumeIntegralInRange(0, 40); left > 0; --left) {
    const auto count = uint32_t(data.tokens.size());
    if (byte_level && count > 0 && in.ConsumeBool()) {
      const std::string& first = data.tokens[in.ConsumeIntegral<uint16_t>() % count];
      const std::string& second = data.tokens[in.ConsumeIntegral<uint16_t>() % count];
      data.merges.push_back(first + " " + second);
      data.tokens.push_back(first + second);
    } else {
      data.tokens.push_back(word(in));
    }
  }
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    if (!byte_level) data.scores.push_back(in.ConsumeFloatingPoint<float>());
    if (!*gives_back) data.types.push_back(in.ConsumeIntegralInRange(0, 7));
  }
  if (in.ConsumeBool()) data.unknown_token_id = in.ConsumeIntegralInRange(-1, 50);
  if (!*gives_back && in.ConsumeBool()) data.bos_token_id = in.ConsumeIntegralInRange(-1, 50);
  if (in.ConsumeBool()) data.add_space_prefix = in.ConsumeBool();
  return data;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  constexpr const char* kText =
      "Hello  wörld's 123\r\n\t<s></s> ▁<0x0A>\xFF\xE2\x82 日本e\u0301 \U0001F600";
  try {
    if (size >= 4 && std::string_view(reinterpret_cast<const char*>(bytes), 4) == "GGUF") {
      const std::vector<std::byte> copy(reinterpret_cast<const std::byte*>(bytes),
                                        reinterpret_cast<const std::byte*>(bytes) + size);
      const auto file = tw::models::GgufFile::parse(copy, "input");
      exercise(tw::models::tokenizer_from_gguf(file), kText, false);
      return 0;
    }
    FuzzedDataProvider in(bytes, size);
    bool gives_back = false;
    const Tokenizer tokenizer(small_vocabulary(in, &gives_back));
    exercise(tokenizer, in.ConsumeRemainingBytesAsString(), gives_back);
    exercise(tokenizer, kText, gives_back);
  } catch (const tw::Error&) {
  }
  return 0;
}
