// All size and offset arithmetic goes through here: 64-bit, and overflow is an error, never a wrap.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "tilewright/core/error.h"

namespace tw {

/// Whether a * b fits, which `out` then is.
inline bool try_mul(int64_t a, int64_t b, int64_t& out) {
  return !__builtin_mul_overflow(a, b, &out);
}

/// Whether a + b fits, which `out` then is.
inline bool try_add(int64_t a, int64_t b, int64_t& out) {
  return !__builtin_add_overflow(a, b, &out);
}

/// a * b. Throws Error{kInvalidArgument} naming `what` when the product leaves int64.
inline int64_t checked_mul(int64_t a, int64_t b, const char* what = "size") {
  int64_t out = 0;
  if (!try_mul(a, b, out)) {
    throw Error(ErrorKind::kInvalidArgument, std::string(what) + " overflows 64 bits: " +
                                                 std::to_string(a) + " * " + std::to_string(b));
  }
  return out;
}

/// a + b. Throws Error{kInvalidArgument} naming `what` when the sum leaves int64.
inline int64_t checked_add(int64_t a, int64_t b, const char* what = "size") {
  int64_t out = 0;
  if (!try_add(a, b, out)) {
    throw Error(ErrorKind::kInvalidArgument, std::string(what) + " overflows 64 bits: " +
                                                 std::to_string(a) + " + " + std::to_string(b));
  }
  return out;
}

/// Smallest multiple of `step` (> 0) that is >= n (>= 0).
inline int64_t round_up(int64_t n, int64_t step) {
  return checked_mul((n / step) + (n % step != 0), step);
}

/// ceil(n / step) for n >= 0, step > 0; cannot overflow.
constexpr int64_t ceil_div(int64_t n, int64_t step) {
  return n / step + (n % step != 0);
}

}  // namespace tw
