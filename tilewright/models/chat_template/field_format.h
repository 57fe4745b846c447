// One value as Python's format(value, spec) writes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tilewright/models/chat_template/sandbox.h"
#include "tilewright/models/chat_template/value.h"

namespace tw::models::chat_template {

inline constexpr int64_t kMaxWidth = 1 << 24;  // of a field
inline constexpr std::string_view kFloatTypes = "eEfFgG%";

/// How one value is written: [[fill]align][sign][#][0][width][,][.precision][type].
struct FieldSpec {
  std::string fill = " ";
  char align = 0;     // < > ^ =
  char sign = 0;      // + - and space
  bool zero = false;  // numbers: zeros behind the sign, where no alignment is given
  bool alternate = false;
  char grouping = 0;  // , _
  int64_t width = 0, precision = -1;
  char type = 0;
};

/// Whether `c` is in `set`; 0 never is.
bool is_one_of(char c, std::string_view set);

/// Digits at `pos` as a number, which must not exceed `most`; -1 when there are none.
int64_t take_number(Sandbox& sandbox, std::string_view text, size_t& pos, int64_t most);

Value format_text(Sandbox& sandbox, std::string_view text, const FieldSpec& spec);
Value format_integer(Sandbox& sandbox, int64_t value, const FieldSpec& spec);
Value format_float_as(Sandbox& sandbox, double value, const FieldSpec& spec);

/// format(value, text).
Value format_value(Sandbox& sandbox, const Value& value, std::string_view text);

}  // namespace tw::models::chat_template
