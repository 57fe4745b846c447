// Python's str operations on UTF-8: positions count code points, case and white space follow
// Unicode. All of them run in time linear in their inputs; the callers account for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tw::models::chat_template {

/// Byte offset of the first ill-formed sequence, or npos when `text` is valid UTF-8.
size_t find_invalid_utf8(std::string_view text);

/// Number of code points in valid UTF-8.
int64_t count_code_points(std::string_view text);

/// Reads the code point at byte `pos` of valid UTF-8 and moves `pos` behind it.
char32_t next_code_point(std::string_view text, size_t& pos);

void append_utf8(std::string& out, char32_t code_point);

/// What str.isspace, str.strip and the regular expression \s take for white space.
bool is_space(char32_t code_point);

/// A string with a way to address its code points: O(1) for ASCII, O(n) otherwise.
struct CodePoints {
  std::string_view text;
  int64_t length;

  bool ascii() const { return length == int64_t(text.size()); }
  /// Byte offset of code point `index`, 0 <= index <= length.
  size_t offset(int64_t index) const;
  std::string_view slice(int64_t begin, int64_t end) const;
};

enum class Side { kBoth, kLeft, kRight };

/// str.strip() and its two relatives.
std::string_view strip(std::string_view text, Side side = Side::kBoth);
/// str.strip(characters): removes any of the characters.
std::string_view strip(std::string_view text, std::string_view characters, Side side);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// str.capitalize(): first character in title case, the rest in lower case.
std::string capitalize(std::string_view text);
/// str.title(): every run of cased characters capitalised.
std::string title_words(std::string_view text);
/// The title filter of Jinja: words begin after white space and any of -({[<.
std::string title_filter(std::string_view text);

/// str.isupper() and str.islower().
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

/// str.find in bytes, linear time in the worst case; npos when absent.
size_t find_bytes(std::string_view text, std::string_view needle, size_t from = 0);
/// str.rfind in bytes.
size_t rfind_bytes(std::string_view text, std::string_view needle);
/// How many times `needle` (may be empty) occurs without overlap, as str.count says.
int64_t count_occurrences(std::string_view text, std::string_view needle);
/// str.replace(from, to, limit); limit < 0 means all. The caller has checked the result's size.
std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t limit);

/// str.split(separator, limit) for a non-empty separator; limit < 0 means no limit.
std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    int64_t limit);
/// str.rsplit(separator, limit) for a non-empty separator.
std::vector<std::string_view> rsplit(std::string_view text, std::string_view separator,
                                     int64_t limit);
/// str.split(None, limit) and, from the right, str.rsplit(None, limit).
std::vector<std::string_view> split_space(std::string_view text, int64_t limit, bool from_right);
/// str.splitlines(keep_ends), but no more than `most` lines.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends,
                                          size_t most = SIZE_MAX);

/// Appends \xhh, \uhhhh or \Uhhhhhhhh, the shortest that fits.
void append_escape(std::string& out, char32_t code_point);

/// The text with the characters that HTML gives a meaning as entities.
std::string escape_html(std::string_view text);

/// repr(str).
std::string quote(std::string_view text);
/// Of its first 80 bytes, less a code point that they cut: for messages.
std::string quote_start(std::string_view text);

/// repr(float): the shortest digits that read back as the same number.
std::string format_float(double value);

}  // namespace tw::models::chat_template
