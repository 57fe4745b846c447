#include "tilewright/core/printable.h"

#include <algorithm>
#include <cstdint>

namespace tw {
namespace {

struct Decoded {
  uint32_t code_point;
  size_t bytes;  // 0: not UTF-8 at this place
};

// The first character of non-empty `text`: shortest form only, no surrogates, up to U+10FFFF.
Decoded decode_first(std::string_view text) {
  const auto lead = uint8_t(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (bytes == 0 || text.size() < bytes) return {0, 0};
  uint32_t code_point = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = uint8_t(text[i]);
    if ((next & 0xc0) != 0x80) return {0, 0};
    code_point = (code_point << 6) | (next & 0x3fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point < 0xe000;
  if (code_point < kSmallest[bytes] || code_point > 0x10ffff || surrogate) return {0, 0};
  return {code_point, bytes};
}

// C0 and C1 controls, line and paragraph separators, and the marks that reorder a line.
bool is_unsafe(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void append_escaped(std::string& out, char c) {
  constexpr char kDigits[] = "0123456789abcdef";
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else {
    out += "\\x";
    out += kDigits[uint8_t(c) >> 4];
    out += kDigits[uint8_t(c) & 15];
  }
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    const Decoded next = decode_first(text.substr(i));
    const size_t bytes = std::max<size_t>(next.bytes, 1);
    if (i + bytes > max_bytes) break;
    if (next.bytes == 0 || is_unsafe(next.code_point)) {
      for (const char c : text.substr(i, bytes)) append_escaped(out, c);
    } else if (next.code_point == '\\') {
      out += "\\\\";
    } else {
      out += text.substr(i, bytes);
    }
    i += bytes;
  }
  if (i < text.size()) out += "...";
  return out;
}

}  // namespace tw
