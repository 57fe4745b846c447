// Modifications of attention's scores and masks as text: expressions in Python's syntax over
// numbers, compiled to a list of operations.
//
//   score - 0.5 * abs(q - k)                     ALiBi, of one slope
//   where(q >= k, score, -inf)                   a causal mask
//   20 * tanh(score / 20)                        a cap
//   mod_i32[q] == mod_i32[k] and q >= k          documents, each causal, as a mask
//
//   names       score (not in a mask), b, h, q, k: the sequence, the head of queries, the query and
//               the key, counted from their sequence's start; q_len, kv_len; inf, True, False
//   operators   x if c else y   or   and   not   < <= > >= == !=   + -   * / // %   - of one
//   functions   where(c, x, y) min max abs exp exp2 log log2 tanh sigmoid sqrt floor
//   tensors     mod_f32[i], mod_i32[i]: the element i, or the nearest one that is there
//
// Names and whole numbers are integers of 32 bits, which wrap around; scores and other numbers are
// floats; comparisons are conditions. Integers become floats where the other side is one. `/`
// divides floats, `//` and `%` integers, rounding down; x // 0 is 0 and x % 0 is x.
#pragma once

#include <string_view>

#include "tilewright/kernels/score_program.h"

namespace tw::ops {

enum class ScoreText {
  kScore,  // gives a number
  kMask,   // gives a condition
};

/// Empty text gives an empty program. Throws kInvalidArgument that says where in the text it is
/// wrong, and why.
TW_API kernels::ScoreProgram parse_score_program(std::string_view text, ScoreText kind);

}  // namespace tw::ops
