#include "tilewright/models/tokenizer/normalize.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <utf8proc.h>

#include "tilewright/models/tokenizer/utf8.h"

namespace tw::models {
namespace {

int combining_class(int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

// Canonical decomposition of each character, not yet in canonical order.
std::vector<int32_t> decompose(std::string_view text) {
  constexpr int kMaxDecomposition = 4;  // characters that one character decomposes into (UAX #15)
  std::vector<int32_t> out;
  out.reserve(text.size() / 2);
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text.substr(at));
    at += step.bytes;
    int32_t parts[kMaxDecomposition];
    const auto count = utf8proc_decompose_char(int32_t(step.code), parts, kMaxDecomposition,
                                               UTF8PROC_DECOMPOSE, nullptr);
    out.insert(out.end(), parts, parts + std::clamp<ptrdiff_t>(count, 0, kMaxDecomposition));
  }
  return out;
}

// Sorts each run of marks by combining class, keeping the order of equals. utf8proc's own ordering
// takes quadratic time in the length of a run.
void order_marks(std::vector<int32_t>& characters) {
  constexpr int kCharacterBits = 21, kPositionBits = 35;
  std::vector<uint64_t> keys;  // of a run: class, position, character, from the top bit down
  for (size_t at = 0; at < characters.size();) {
    const size_t first = at;
    keys.clear();
    for (; at < characters.size() && combining_class(characters[at]) != 0; ++at) {
      keys.push_back(uint64_t(combining_class(characters[at])) << (kPositionBits + kCharacterBits) |
                     uint64_t(at - first) << kCharacterBits | uint64_t(characters[at]));
    }
    std::sort(keys.begin(), keys.end());
    for (size_t i = 0; i < keys.size(); ++i) {
      characters[first + i] = int32_t(keys[i] & ((1u << kCharacterBits) - 1));
    }
    if (keys.empty()) ++at;
  }
}

}  // namespace

bool is_below_combining_marks(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char byte) { return uint8_t(byte) < 0xCC; });
}

std::string nfc(std::string_view text) {
  std::vector<int32_t> characters = decompose(text);
  order_marks(characters);
  const auto count =
      utf8proc_normalize_utf32(characters.data(), ptrdiff_t(characters.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  std::string out;
  out.reserve(text.size());
  for (ptrdiff_t i = 0; i < count; ++i) append_utf8(out, char32_t(characters[size_t(i)]));
  return out;
}

}  // namespace tw::models
