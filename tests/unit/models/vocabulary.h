// A vocabulary that a test writes itself, in the bytes that a file would have it in.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tilewright/models/tokenizer/tokenizer_data.h"

namespace tw::models {

/// The fields of TokenizerData, owned.
struct Vocabulary : TokenizerSettings {
  std::string model, pre;
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  std::vector<std::string> merges;

  /// The tokenizer's data, which owns its bytes.
  operator TokenizerData() const {  // NOLINT(google-explicit-constructor): what a test is to read
    auto bytes = std::make_shared<Bytes>();
    TokenizerData out;
    static_cast<TokenizerSettings&>(out) = *this;
    bytes->model = model;
    bytes->pre = pre;
    out.model = bytes->model;
    out.pre = bytes->pre;
    out.tokens = packed(tokens, bytes->tokens);
    out.merges = packed(merges, bytes->merges);
    bytes->scores = scores;
    bytes->types = types;
    out.scores = GgufNumbers<float>(values(GgufType::kF32, bytes->scores));
    out.types = GgufNumbers<int64_t>(values(GgufType::kI32, bytes->types));
    out.owner = bytes;
    return out;
  }

  /// Strings as GGUF has them. Keeps a view of `bytes`.
  static GgufStrings packed(const std::vector<std::string>& strings,
                            std::vector<std::byte>& bytes) {
    for (const std::string& text : strings) {
      const uint64_t size = text.size();
      const size_t at = bytes.size();
      bytes.resize(at + sizeof size + text.size());
      std::memcpy(bytes.data() + at, &size, sizeof size);
      std::memcpy(bytes.data() + at + sizeof size, text.data(), text.size());
    }
    return {bytes.data(), int64_t(strings.size())};
  }

 private:
  struct Bytes {
    std::string model, pre;
    std::vector<std::byte> tokens, merges;
    std::vector<float> scores;
    std::vector<int32_t> types;
  };
  template <class T>
  static GgufValue values(GgufType type, const std::vector<T>& from) {
    return {type, true, reinterpret_cast<const std::byte*>(from.data()), int64_t(from.size())};
  }
};

}  // namespace tw::models
