// Unicode character classes inside regular expressions, independent of the Unicode version of the
// PCRE2 at hand.
#pragma once

#include <string>
#include <string_view>

namespace tw::models {

/// `pattern` with \s, \S and \p{L Lu Ll Lt Lm Lo M N P S} spelled out so that they hold exactly the
/// characters that Unicode 16 has in them (PCRE2 10.42: Unicode 14, and U+180E in \s). \S may not
/// stand inside [...].
std::string expand_classes(std::string_view pattern);

}  // namespace tw::models
