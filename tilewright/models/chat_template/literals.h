// Numbers and string escapes, as the Jinja lexer and Python's int() and float() read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tw::models::chat_template {

/// Length of the floating point literal that `text` begins with; 0 when there is none.
size_t match_float(std::string_view text);

/// Length of the integer literal (decimal, 0x, 0o, 0b) that `text` begins with, at least 1 after a
/// digit.
size_t match_integer(std::string_view text);

enum class NumberParse { kOk, kNoNumber, kOutOfRange };

/// int(text, base): signs, underscores and white space around are allowed, base 0 goes by the
/// prefix. kOutOfRange is a number beyond 64 bits.
NumberParse parse_integer(std::string_view text, int base, int64_t& out);

/// float(text), "inf" and "nan" included. Returns false when `text` is no number.
bool parse_float(std::string_view text, double& out);

/// Replaces Python's backslash escapes. Returns nullptr, or what is wrong with them.
const char* unescape(std::string_view text, std::string& out);

}  // namespace tw::models::chat_template
