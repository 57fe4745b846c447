#include "tilewright/models/tokenizer/byte_map.h"

#include <array>

#include "tilewright/models/tokenizer/utf8.h"

namespace tw::models {
namespace {

constexpr size_t kCharacters = 0x144;  // one past the last character of the map

struct ByteMap {
  std::array<char16_t, 256> characters{};
  std::array<int16_t, kCharacters> bytes{};
};

constexpr ByteMap make_map() {
  ByteMap map;
  map.bytes.fill(-1);
  char16_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool itself = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
    const char16_t character = itself ? char16_t(b) : next++;
    map.characters[size_t(b)] = character;
    map.bytes[character] = int16_t(b);
  }
  return map;
}

constexpr ByteMap kMap = make_map();

}  // namespace

char32_t byte_character(uint8_t byte) {
  return kMap.characters[byte];
}

int character_byte(char32_t character) {
  return character < kCharacters ? kMap.bytes[character] : -1;
}

void append_spelled(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) append_utf8(out, byte_character(uint8_t(byte)));
}

void append_unspelled(std::string& out, std::string_view text) {
  const size_t before = out.size();
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text.substr(at));
    const bool whole = step.kind == Utf8Step::Kind::kCharacter;
    const int byte = whole ? character_byte(step.code) : -1;
    if (byte < 0) {
      out.replace(before, std::string::npos, text);
      return;
    }
    out += char(byte);
    at += step.bytes;
  }
}

}  // namespace tw::models
