// Text from outside, made safe to print on one line of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tilewright/core/macros.h"

namespace tw {

/// `text` with control characters, direction marks and bytes that are not UTF-8 written as \n, \r,
/// \t or \xNN, and backslashes doubled. Text longer than max_bytes ends in "..." after at most
/// that many of its bytes, never in the middle of a character.
TW_API std::string printable(std::string_view text, size_t max_bytes = 4096);

}  // namespace tw
