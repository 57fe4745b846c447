// Python's arithmetic on numbers: 64-bit integers that never wrap, floor division, and floats.
#pragma once

#include "tilewright/models/chat_template/sandbox.h"
#include "tilewright/models/chat_template/syntax.h"
#include "tilewright/models/chat_template/value.h"

namespace tw::models::chat_template {

/// a `op` b for two numbers and an arithmetic operator. Throws on overflow, division by zero and
/// where Python would leave the real numbers.
Value calculate(Sandbox& sandbox, Operator op, const Value& a, const Value& b);

/// round(value, digits): half to even, on the exact value of a float.
Value round_number(Sandbox& sandbox, const Value& value, int64_t digits);

/// int(value): cuts a float's fraction off. Throws for infinities and beyond 64 bits.
int64_t truncate_float(Sandbox& sandbox, double value);

}  // namespace tw::models::chat_template
