// GPT-2's spelling of bytes as printable characters, so that a vocabulary of byte strings can be
// written as text: '!'..'~', U+00A1..U+00AC and U+00AE..U+00FF stand for themselves, the other
// bytes, in order, for U+0100, U+0101, ... (a space becomes U+0120, a line feed U+010A).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tw::models {

/// The character that stands for `byte`, U+0021 to U+0143.
char32_t byte_character(uint8_t byte);

/// The byte that `character` stands for, or -1.
int character_byte(char32_t character);

/// Appends `bytes` spelled as characters.
void append_spelled(std::string& out, std::string_view bytes);

/// Appends the bytes that `text` spells, or `text` itself if any of its characters spells none.
void append_unspelled(std::string& out, std::string_view text);

}  // namespace tw::models
