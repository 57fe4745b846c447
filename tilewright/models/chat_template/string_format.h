// Python's two ways to put values into a text. Widths and precisions are bounded and paid for.
#pragma once

#include <string_view>

#include "tilewright/models/chat_template/sandbox.h"
#include "tilewright/models/chat_template/value.h"

namespace tw::models::chat_template {

/// self.format(...), the text of the string `self`.
Value format_braces(Sandbox& sandbox, const Value& self, const Arguments& arguments);

/// text % values: a tuple has one for each conversion, a dict those with names.
Value format_percent(Sandbox& sandbox, std::string_view text, const Value& values);

}  // namespace tw::models::chat_template
