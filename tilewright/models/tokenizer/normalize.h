// Unicode normalisation form C (UAX #15), which some vocabularies expect of their input.
#pragma once

#include <string>
#include <string_view>

namespace tw::models {

/// Whether every character of `text` lies below U+0300, so that nfc(text) == text.
bool is_below_combining_marks(std::string_view text);

/// The composed form of well-formed UTF-8. O(n log n) also for hostile runs of combining marks.
std::string nfc(std::string_view text);

}  // namespace tw::models
