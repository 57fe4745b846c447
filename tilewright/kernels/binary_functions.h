//   out = f(x, other), broadcast, for one of the functions of two numbers.
#pragma once

#include "tilewright/kernels/choose.h"
#include "tilewright/kernels/elementwise.h"
#include "tilewright/tile/circular.h"
#include "tilewright/tile/power.h"
#include "tilewright/tile/reduction.h"

namespace tw::kernels {

struct Quotient {
  template <class V>
  TW_INLINE V operator()(V x, V y) const {
    return x / y;
  }
};
struct TruncatedQuotient {
  template <class V>
  TW_INLINE V operator()(V x, V y) const {
    return tile::trunc(tile::divide(x, y));
  }
};
/// Where a rest has not the sign of y, it is that of the next quotient.
template <class V>
TW_INLINE auto goes_down(V rest, V y) {
  return (rest != V{}) & ((rest < V{}) != (y < V{}));
}
/// As Python's //: of the exact rest, so that no quotient is rounded up to the next whole number.
struct FloorQuotient {
  template <class V>
  TW_INLINE V operator()(V x, V y) const {
    const V rest = tile::exact_rest(x, y), quotient = (x - rest) / y;
    const V down = tile::select(goes_down(rest, y), quotient - 1.0f, quotient);
    // What the division was rounded by is below a half: the next whole number is meant. Zero has
    // the quotient's sign.
    const V whole = tile::select(down == V{}, (x / y) * 0.0f, tile::round(down));
    return tile::select(y == V{}, x / y, whole);
  }
};
/// As Python's %: the sign is that of y; of zero that of x.
struct Remainder {
  template <class V>
  TW_INLINE V operator()(V x, V y) const {
    const V rest = tile::exact_rest(x, y);
    return tile::select(goes_down(rest, y), rest + y, rest);
  }
};
struct Power {
  template <class V>
  TW_INLINE V operator()(V x, V y) const {
    return tile::pow(x, y);
  }
};
/// x above 0, x y below.
struct SlopedBelow {
  template <class V>
  TW_INLINE V operator()(V x, V y) const {
    return tile::select(x > V{}, x, x * y);
  }
};

/// In the order of the schema of ops/binary.h.
using BinaryFunctions =
    OneOf<Quotient, TruncatedQuotient, FloorQuotient, Remainder, Power, SlopedBelow>;

/// NaN if one is; of both zeros +0 (IEEE 754-2019, maximum), which x + y is.
struct Larger {
  template <class V>
  TW_INLINE V operator()(V x, V y) const {
    return tile::larger_or_nan(x, tile::select(x == V{}, x + y, y));
  }
};
/// Of both zeros -0.
struct Smaller {
  template <class V>
  TW_INLINE V operator()(V x, V y) const {
    return tile::smaller_or_nan(x, tile::select(x == V{}, -(-x - y), y));
  }
};
/// In the order of the schema of ops/extremum.h.
using ExtremumFunctions = OneOf<Larger, Smaller>;

struct BitsOfBoth {
  template <class V>
  TW_INLINE V operator()(V x, V y) const {
    return x & y;
  }
};
struct BitsOfEither {
  template <class V>
  TW_INLINE V operator()(V x, V y) const {
    return x | y;
  }
};
struct BitsOfOne {
  template <class V>
  TW_INLINE V operator()(V x, V y) const {
    return x ^ y;
  }
};
/// In the order of the schema of ops/bitwise.h.
using BitwiseFunctions = OneOf<BitsOfBoth, BitsOfEither, BitsOfOne>;

template <class T, class Functions>
struct BinaryChoice {
  Rows<const T> x;      // [...]
  Rows<const T> other;  // [...]
  int function;
  Rows<T> out;  // [...], may alias x or other

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, other, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(out);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    Functions::template choose_within<P>(
        function, [&](auto f) { elementwise<tile::compute_t<T>>(p, out, f, x, other); });
  }
};

}  // namespace tw::kernels
