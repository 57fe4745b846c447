#include "tilewright/models/chat_template/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

namespace tw::models::chat_template {
namespace {

constexpr size_t kNone = std::string_view::npos;

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u;
}

/// Bytes of the sequence that `lead` opens; 0 when it opens none.
int sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

/// The code point that ends right before byte `pos`; moves `pos` to its start.
char32_t previous_code_point(std::string_view text, size_t& pos) {
  do {
    --pos;
  } while (is_continuation(text[pos]));
  size_t start = pos;
  return next_code_point(text, start);
}

template <class Drop>
std::string_view strip_if(std::string_view text, Side side, const Drop& drop) {
  size_t begin = 0, end = text.size();
  while (side != Side::kRight && begin < end) {
    size_t next = begin;
    if (!drop(next_code_point(text, next))) break;
    begin = next;
  }
  while (side != Side::kLeft && begin < end) {
    size_t previous = end;
    if (!drop(previous_code_point(text, previous))) break;
    end = previous;
  }
  return text.substr(begin, end - begin);
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const auto length = size_t(sequence_length(lead));
    if (length == 0 || length > text.size() - i) return i;
    for (size_t k = 1; k < length; ++k) {
      if (!is_continuation(text[i + k])) return i;
    }
    const auto second = length > 1 ? static_cast<unsigned char>(text[i + 1]) : 0u;
    const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    const bool surrogate = lead == 0xed && second >= 0xa0;
    if (overlong || surrogate || (lead == 0xf4 && second >= 0x90)) return i;
    i += length;
  }
  return kNone;
}

int64_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); });
}

char32_t next_code_point(std::string_view text, size_t& pos) {
  const auto lead = static_cast<unsigned char>(text[pos++]);
  if (lead < 0x80) return lead;
  const int length = sequence_length(lead);
  char32_t value = lead & (0x7fu >> length);
  for (int k = 1; k < length; ++k) {
    value = (value << 6) | (static_cast<unsigned char>(text[pos++]) & 0x3fu);
  }
  return value;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += {char(0xc0u | (c >> 6)), char(0x80u | (c & 0x3fu))};
  } else if (c < 0x10000) {
    out += {char(0xe0u | (c >> 12)), char(0x80u | ((c >> 6) & 0x3fu)), char(0x80u | (c & 0x3fu))};
  } else {
    out += {char(0xf0u | (c >> 18)), char(0x80u | ((c >> 12) & 0x3fu)),
            char(0x80u | ((c >> 6) & 0x3fu)), char(0x80u | (c & 0x3fu))};
  }
}

bool is_space(char32_t c) {
  if (c <= 0x20) return (c >= 0x9 && c <= 0xd) || c >= 0x1c;
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t CodePoints::offset(int64_t index) const {
  if (ascii()) return size_t(index);
  size_t pos = 0;
  for (; index > 0; --index) {
    pos += size_t(sequence_length(static_cast<unsigned char>(text[pos])));
  }
  return pos;
}

std::string_view CodePoints::slice(int64_t begin, int64_t end) const {
  if (begin >= end) return {};
  const size_t first = offset(begin);
  const CodePoints rest{text.substr(first), length - begin};
  return rest.text.substr(0, rest.offset(end - begin));
}

std::string_view strip(std::string_view text, Side side) {
  return strip_if(text, side, is_space);
}

std::string_view strip(std::string_view text, std::string_view characters, Side side) {
  std::vector<char32_t> set;
  for (size_t pos = 0; pos < characters.size();) set.push_back(next_code_point(characters, pos));
  std::sort(set.begin(), set.end());
  return strip_if(text, side,
                  [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

size_t find_bytes(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return kNone;
  if (needle.empty()) return from;
  // memmem is linear in the worst case; std::string_view::find is not.
  const void* hit = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return hit == nullptr ? kNone : size_t(static_cast<const char*>(hit) - text.data());
}

size_t rfind_bytes(std::string_view text, std::string_view needle) {
  const std::string reversed(text.rbegin(), text.rend());
  const std::string pattern(needle.rbegin(), needle.rend());
  const size_t at = find_bytes(reversed, pattern);
  return at == kNone ? kNone : text.size() - at - needle.size();
}

int64_t count_occurrences(std::string_view text, std::string_view needle) {
  if (needle.empty()) return count_code_points(text) + 1;
  int64_t count = 0;
  for (size_t at = 0; (at = find_bytes(text, needle, at)) != kNone; at += needle.size()) ++count;
  return count;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t limit) {
  std::string out;
  size_t pos = 0;
  if (from.empty()) {
    // An empty pattern matches before every character and at the end.
    while (limit != 0) {
      out += to;
      if (limit > 0) --limit;
      if (pos == text.size()) return out;
      const size_t start = pos;
      next_code_point(text, pos);
      out += text.substr(start, pos - start);
    }
    return out += text.substr(pos);
  }
  for (size_t at; limit != 0 && (at = find_bytes(text, from, pos)) != kNone;) {
    out += text.substr(pos, at - pos);
    out += to;
    pos = at + from.size();
    if (limit > 0) --limit;
  }
  return out += text.substr(pos);
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    int64_t limit) {
  std::vector<std::string_view> parts;
  size_t pos = 0;
  for (size_t at; limit != 0 && (at = find_bytes(text, separator, pos)) != kNone;) {
    parts.push_back(text.substr(pos, at - pos));
    pos = at + separator.size();
    if (limit > 0) --limit;
  }
  parts.push_back(text.substr(pos));
  return parts;
}

std::vector<std::string_view> rsplit(std::string_view text, std::string_view separator,
                                     int64_t limit) {
  const std::string reversed(text.rbegin(), text.rend());
  const std::string pattern(separator.rbegin(), separator.rend());
  std::vector<std::string_view> parts;
  for (const std::string_view part : split(reversed, pattern, limit)) {
    const auto from_end = size_t(part.data() - reversed.data()) + part.size();
    parts.push_back(text.substr(text.size() - from_end, part.size()));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_space(std::string_view text, int64_t limit, bool from_right) {
  std::vector<std::string_view> parts;
  const Side near = from_right ? Side::kRight : Side::kLeft;
  text = strip(text, near);
  while (!text.empty()) {
    if (limit == 0) {
      parts.push_back(text);  // Python keeps the white space at the far side
      break;
    }
    if (limit > 0) --limit;
    size_t pos = from_right ? text.size() : 0, end = pos;
    while (pos != (from_right ? 0 : text.size())) {
      const bool space =
          is_space(from_right ? previous_code_point(text, pos) : next_code_point(text, pos));
      if (space) break;
      end = pos;
    }
    parts.push_back(from_right ? text.substr(end) : text.substr(0, end));
    text = strip(from_right ? text.substr(0, end) : text.substr(end), near);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends, size_t most) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t pos = 0; pos < text.size() && lines.size() < most;) {
    const size_t end = pos;
    const char32_t c = next_code_point(text, pos);
    const bool line_end = (c >= 0xa && c <= 0xd) || (c >= 0x1c && c <= 0x1e) || c == 0x85 ||
                          c == 0x2028 || c == 0x2029;
    if (!line_end) continue;
    if (c == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    lines.push_back(text.substr(start, (keep_ends ? pos : end) - start));
    start = pos;
  }
  if (start < text.size() && lines.size() < most) lines.push_back(text.substr(start));
  return lines;
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double magnitude = std::fabs(value);
  // Python changes to an exponent where the decimal point leaves [-4, 16).
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  std::array<char, 64> buffer{};
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  std::string out(buffer.data(), end);
  if (plain && out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string quote_start(std::string_view text) {
  size_t end = std::min<size_t>(text.size(), 80);
  while (end > 0 && end < text.size() && is_continuation(text[end])) --end;
  return quote(text.substr(0, end));
}

}  // namespace tw::models::chat_template
