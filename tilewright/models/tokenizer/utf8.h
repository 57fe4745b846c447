// UTF-8, one character at a time, for text that may be malformed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tw::models {

/// One step through UTF-8 text.
struct Utf8Step {
  enum class Kind : uint8_t {
    kCharacter,  ///< a well-formed character
    kMalformed,  ///< bytes that no continuation makes well-formed
    kCutShort,   ///< the text ends inside what may still become a character
  };
  Kind kind;
  uint8_t
      bytes;  ///< 1 to 4; of malformed text the longest prefix of a character ("maximal subpart")
  char32_t code;  ///< the character; 0 unless kCharacter
};

/// The first step of `text`, which must not be empty. Surrogates, overlong forms and code points
/// above U+10FFFF are malformed.
Utf8Step next_utf8(std::string_view text);

/// The length of the longest prefix of `text` that is well-formed.
size_t well_formed_prefix(std::string_view text);

/// How many bytes of white space (Unicode's property White_Space) `text` begins with.
size_t leading_white_space(std::string_view text);

/// Appends `code`, a Unicode scalar value, as UTF-8.
void append_utf8(std::string& out, char32_t code);

}  // namespace tw::models
