// The part of text.h that knows upper, lower and title case, and repr.
#include <algorithm>
#include <iterator>

#include "tilewright/models/chat_template/case_tables.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models::chat_template {
namespace {

constexpr char32_t kCapitalSigma = 0x3a3, kSmallSigma = 0x3c3, kFinalSigma = 0x3c2;
constexpr char32_t kCapitalIWithDot = 0x130;

template <size_t kCount>
char32_t map_case(const CaseRange (&table)[kCount], char32_t c) {
  // The first range that does not end before c; ranges of step 2 may interleave by one.
  const auto* range = std::lower_bound(std::begin(table), std::end(table), c,
                                       [](const CaseRange& r, char32_t x) { return r.last < x; });
  for (int tries = 0; tries < 2 && range != std::end(table); ++tries, ++range) {
    if (c >= range->first && c <= range->last && (c - range->first) % range->step == 0) {
      return char32_t(int64_t(c) + range->delta);
    }
  }
  return c;
}

char32_t simple_upper(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  return map_case(kToUpper, c);
}

char32_t simple_lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return map_case(kToLower, c);
}

const SpecialCase* find_special(char32_t c) {
  if (c < 0x80) return nullptr;
  const auto* it =
      std::lower_bound(std::begin(kSpecialCase), std::end(kSpecialCase), c,
                       [](const SpecialCase& s, char32_t x) { return s.code_point < x; });
  return it != std::end(kSpecialCase) && it->code_point == c ? it : nullptr;
}

bool is_lower_case(char32_t c) {
  return simple_upper(c) != c || find_special(c) != nullptr;
}
bool is_upper_case(char32_t c) {
  return simple_lower(c) != c || c == kCapitalIWithDot;
}
bool is_cased(char32_t c) {
  return is_lower_case(c) || is_upper_case(c);
}

void append_upper(std::string& out, char32_t c) {
  if (const SpecialCase* special = find_special(c)) {
    out += special->upper;
  } else {
    append_utf8(out, simple_upper(c));
  }
}

void append_title(std::string& out, char32_t c) {
  const bool georgian = c >= 0x10d0 && c <= 0x10ff;  // its capitals are not used for titles
  if (const SpecialCase* special = find_special(c)) {
    out += special->title;
  } else {
    append_utf8(out, georgian ? c : simple_upper(c));
  }
}

/// Characters that do not count when looking for the neighbours of a sigma.
bool is_case_ignorable(char32_t c) {
  return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xad || c == 0xb7 ||
         (c >= 0x300 && c <= 0x36f) || c == 0x2019;
}

/// Sigma is final when a cased character precedes it and none follows within the word.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  bool preceded = false;
  while (begin > 0 && !preceded) {
    do {
      --begin;
    } while ((static_cast<unsigned char>(text[begin]) & 0xc0u) == 0x80u);
    size_t pos = begin;
    const char32_t c = next_code_point(text, pos);
    preceded = is_cased(c);
    if (!preceded && !is_case_ignorable(c)) break;
  }
  while (preceded && end < text.size()) {
    const char32_t c = next_code_point(text, end);
    if (is_case_ignorable(c)) continue;
    return !is_cased(c);
  }
  return preceded;
}

/// Lower-cases the character of `text` in bytes [begin, end).
void append_lower(std::string& out, std::string_view text, size_t begin, size_t end, char32_t c) {
  if (c == kCapitalSigma) {
    append_utf8(out, is_final_sigma(text, begin, end) ? kFinalSigma : kSmallSigma);
  } else if (c == kCapitalIWithDot) {
    out += "i\u0307";
  } else {
    append_utf8(out, simple_lower(c));
  }
}

bool is_printable(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  // Controls, format characters, separators, surrogates and private use.
  static constexpr Range kHidden[] = {
      {0x0, 0x1f},        {0x7f, 0xa0},        {0xad, 0xad},       {0x600, 0x605},
      {0x61c, 0x61c},     {0x6dd, 0x6dd},      {0x70f, 0x70f},     {0x890, 0x891},
      {0x8e2, 0x8e2},     {0x1680, 0x1680},    {0x180e, 0x180e},   {0x2000, 0x200f},
      {0x2028, 0x202f},   {0x205f, 0x206f},    {0x3000, 0x3000},   {0xd800, 0xf8ff},
      {0xfeff, 0xfeff},   {0xfff0, 0xfffb},    {0xfffe, 0xffff},   {0x110bd, 0x110bd},
      {0x110cd, 0x110cd}, {0x13430, 0x13438},  {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
      {0x323b0, 0xe00ff}, {0xe01f0, 0x10ffff},
  };
  return std::none_of(std::begin(kHidden), std::end(kHidden),
                      [c](const Range& r) { return c >= r.first && c <= r.last; });
}

}  // namespace

void append_escape(std::string& out, char32_t c) {
  static constexpr char kHex[] = "0123456789abcdef";
  const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(c >> shift) & 0xfu];
}

std::string to_upper(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) append_upper(out, next_code_point(text, pos));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = next_code_point(text, pos);
    append_lower(out, text, begin, pos, c);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = next_code_point(text, pos);
    if (begin == 0) {
      append_title(out, c);
    } else {
      append_lower(out, text, begin, pos, c);
    }
  }
  return out;
}

std::string title_words(std::string_view text) {
  std::string out;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = next_code_point(text, pos);
    if (inside) {
      append_lower(out, text, begin, pos, c);
    } else {
      append_title(out, c);
    }
    inside = is_cased(c);
  }
  return out;
}

std::string title_filter(std::string_view text) {
  const auto opens_word = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const bool separator = opens_word(next_code_point(text, pos));
    size_t end = pos;
    while (end < text.size()) {
      size_t next = end;
      if (opens_word(next_code_point(text, next)) != separator) break;
      end = next;
    }
    size_t first = start;
    append_upper(out, next_code_point(text, first));
    out += to_lower(text.substr(first, end - first));
    pos = end;
  }
  return out;
}

bool is_upper(std::string_view text) {
  bool any = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (is_lower_case(c)) return false;
    any = any || is_upper_case(c);
  }
  return any;
}

bool is_lower(std::string_view text) {
  bool any = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (is_upper_case(c)) return false;
    any = any || is_lower_case(c);
  }
  return any;
}

std::string quote(std::string_view text) {
  const bool single = find_bytes(text, "'") == std::string_view::npos ||
                      find_bytes(text, "\"") != std::string_view::npos;
  const char mark = single ? '\'' : '"';
  std::string out(1, mark);
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (c == char32_t(mark) || c == '\\') {
      out += {'\\', char(c)};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : 't'};
    } else if (is_printable(c)) {
      append_utf8(out, c);
    } else {
      append_escape(out, c);
    }
  }
  return out += mark;
}

}  // namespace tw::models::chat_template
