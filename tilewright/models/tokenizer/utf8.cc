#include "tilewright/models/tokenizer/utf8.h"

namespace tw::models {
namespace {

// What may follow a lead byte (Unicode Standard, table 3-7).
struct Lead {
  uint8_t bytes;        // of the whole character, 0: no character starts with this byte
  uint8_t first, last;  // range of the second byte; every later one is 0x80..0xBF
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0)
    return {3, uint8_t(byte == 0xE0 ? 0xA0 : 0x80), uint8_t(byte == 0xED ? 0x9F : 0xBF)};
  if (byte < 0xF5)
    return {4, uint8_t(byte == 0xF0 ? 0x90 : 0x80), uint8_t(byte == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

}  // namespace

Utf8Step next_utf8(std::string_view text) {
  const uint8_t first = uint8_t(text[0]);
  const Lead lead = lead_of(first);
  if (lead.bytes == 0) return {Utf8Step::Kind::kMalformed, 1, 0};
  if (lead.bytes == 1) return {Utf8Step::Kind::kCharacter, 1, first};
  char32_t code = first & (0x7Fu >> lead.bytes);
  for (uint8_t i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {Utf8Step::Kind::kCutShort, i, 0};
    const uint8_t byte = uint8_t(text[i]);
    const bool fits = i == 1 ? byte >= lead.first && byte <= lead.last : (byte & 0xC0) == 0x80;
    if (!fits) return {Utf8Step::Kind::kMalformed, i, 0};
    code = (code << 6) | (byte & 0x3Fu);
  }
  return {Utf8Step::Kind::kCharacter, lead.bytes, code};
}

size_t well_formed_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (uint8_t(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = next_utf8(text.substr(at));
    if (step.kind != Utf8Step::Kind::kCharacter) break;
    at += step.bytes;
  }
  return at;
}

size_t leading_white_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = next_utf8(text.substr(at));
    const char32_t c = step.code;
    const bool is_space = (c >= 0x09 && c <= 0x0d) || c == ' ' || c == 0x85 || c == 0xa0 ||
                          c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
                          c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
    if (!is_space) break;
    at += step.bytes;
  }
  return at;
}

void append_utf8(std::string& out, char32_t code) {
  const auto tail = [&](int shift) { out += char(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out += char(code);
  } else if (code < 0x800) {
    out += char(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += char(0xE0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += char(0xF0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace tw::models
