#include "tilewright/models/chat_template/literals.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? char(c + 32) : c;
}

/// Value of a digit in bases up to 36, or 99.
int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/// End of the digits, single underscores between them, that start at `pos`.
size_t skip_digits(std::string_view text, size_t pos, int base) {
  const auto digit_at = [&](size_t i) { return i < text.size() && digit_value(text[i]) < base; };
  while (digit_at(pos) || (pos < text.size() && text[pos] == '_' && digit_at(pos + 1))) ++pos;
  return pos;
}

/// Base that a literal's prefix names, or 10.
int prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 10;
  const char c = lower(text[1]);
  return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out += c;
  }
  return out;
}

}  // namespace

size_t match_float(std::string_view text) {
  if (text.empty() || !is_digit(text[0])) return 0;
  const auto digit_at = [&](size_t i) { return i < text.size() && is_digit(text[i]); };
  size_t end = skip_digits(text, 0, 10);
  bool is_float = false;
  if (end < text.size() && text[end] == '.' && digit_at(end + 1)) {
    end = skip_digits(text, end + 1, 10);
    is_float = true;
  }
  if (end < text.size() && lower(text[end]) == 'e') {
    const bool has_sign = end + 1 < text.size() && (text[end + 1] == '+' || text[end + 1] == '-');
    const size_t exponent = end + (has_sign ? 2 : 1);
    if (digit_at(exponent)) {
      end = skip_digits(text, exponent, 10);
      is_float = true;
    }
  }
  return is_float ? end : 0;
}

size_t match_integer(std::string_view text) {
  const int base = prefix_base(text);
  if (base != 10) {
    const size_t start = text.size() > 2 && text[2] == '_' ? 3 : 2;
    const size_t end = skip_digits(text, start, base);
    if (end > start) return end;
  }
  // Decimal numbers do not begin with 0, except zero itself.
  return text[0] == '0' ? skip_digits(text, 0, 1) : skip_digits(text, 0, 10);
}

NumberParse parse_integer(std::string_view text, int base, int64_t& out) {
  text = strip(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const int named = prefix_base(text);
  if (named != 10 && (base == 0 || base == named)) {
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
    base = named;
  } else if (base == 0) {
    const bool zeros = skip_digits(text, 0, 1) == text.size();
    if (text.starts_with('0') && !zeros) return NumberParse::kNoNumber;
    base = 10;
  }
  if (text.empty() || text[0] == '_' || skip_digits(text, 0, base) != text.size()) {
    return NumberParse::kNoNumber;
  }
  int64_t value = 0;  // counted downwards: the range is larger there
  for (const char c : text) {
    if (c == '_') continue;
    if (__builtin_mul_overflow(value, int64_t{base}, &value) ||
        __builtin_sub_overflow(value, int64_t{digit_value(c)}, &value)) {
      return NumberParse::kOutOfRange;
    }
  }
  if (!negative && __builtin_sub_overflow(int64_t{0}, value, &value)) {
    return NumberParse::kOutOfRange;
  }
  out = value;
  return NumberParse::kOk;
}

bool parse_float(std::string_view text, double& out) {
  text = strip(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  std::string word;
  for (const char c : text.substr(0, 9)) word += lower(c);
  if (word == "inf" || word == "infinity" || word == "nan") {
    out = word == "nan" ? std::numeric_limits<double>::quiet_NaN()
                        : std::numeric_limits<double>::infinity();
    if (negative) out = -out;
    return true;
  }
  // Digits may be missing on one side of the point; underscores stand between digits only.
  const size_t whole = text.starts_with('_') ? 0 : skip_digits(text, 0, 10);
  size_t end = whole;
  if (end < text.size() && text[end] == '.') {
    const size_t start = end + 1;
    end = start < text.size() && text[start] == '_' ? start : skip_digits(text, start, 10);
    if (whole == 0 && end == start) return false;
  }
  if (end == 0) return false;
  if (end < text.size() && lower(text[end]) == 'e') {
    size_t start = end + 1;
    if (start < text.size() && (text[start] == '+' || text[start] == '-')) ++start;
    if (start >= text.size() || !is_digit(text[start])) return false;
    end = skip_digits(text, start, 10);
  }
  if (end != text.size()) return false;
  const std::string digits = without_underscores(text);
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (result.ec == std::errc::result_out_of_range) {
    // from_chars leaves out alone here; strtod tells overflow (inf) from underflow (0).
    out = std::strtod(digits.c_str(), nullptr);
  }
  if (negative) out = -out;
  return true;
}

namespace {

/// Appends the character that `digits` hexadecimal digits name; false when there are fewer.
bool append_hex(std::string_view text, size_t& pos, size_t digits, char32_t& value) {
  value = 0;
  if (text.size() - pos < digits) return false;
  for (size_t k = 0; k < digits; ++k, ++pos) {
    const int digit = digit_value(text[pos]);
    if (digit >= 16) return false;
    value = value * 16 + char32_t(digit);
  }
  return true;
}

/// One escape, `pos` behind its backslash.
const char* append_unescaped(std::string_view text, size_t& pos, std::string& out) {
  static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
  const char c = text[pos++];
  char32_t value = 0;
  if (c == '\n') return nullptr;
  if (const size_t at = kFrom.find(c); at != std::string_view::npos) {
    out += kTo[at];
  } else if (c == 'x' || c == 'u' || c == 'U') {
    if (!append_hex(text, pos, c == 'x' ? 2 : c == 'u' ? 4 : 8, value)) return "truncated escape";
    if (value > 0x10ffff) return "illegal Unicode character in an escape";
    if (value >= 0xd800 && value < 0xe000) return "a lone surrogate in an escape";
    append_utf8(out, value);
  } else if (c >= '0' && c <= '7') {
    value = char32_t(c - '0');
    for (int k = 0; k < 2 && pos < text.size() && text[pos] >= '0' && text[pos] <= '7'; ++k) {
      value = value * 8 + char32_t(text[pos++] - '0');
    }
    append_utf8(out, value);
  } else if (c == 'N') {
    return "named characters (\\N) are not supported";
  } else if (static_cast<unsigned char>(c) >= 0x80) {
    // Jinja escapes what is not ASCII first, so that the backslash meets another one.
    append_escape(out, next_code_point(text, --pos));
  } else {
    out += {'\\', c};
  }
  return nullptr;
}

}  // namespace

const char* unescape(std::string_view text, std::string& out) {
  for (size_t pos = 0; pos < text.size();) {
    if (text[pos] != '\\') {
      out += text[pos++];
      continue;
    }
    ++pos;
    if (const char* mistake = append_unescaped(text, pos, out)) return mistake;
  }
  return nullptr;
}

}  // namespace tw::models::chat_template
