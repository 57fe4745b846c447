//   out = f(x), elementwise, for one of the functions of one number.
#pragma once

#include "tilewright/kernels/choose.h"
#include "tilewright/kernels/elementwise.h"
#include "tilewright/tile/circular.h"
#include "tilewright/tile/math.h"

namespace tw::kernels {

struct Absolute {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::select(x > V{}, x, V{} - x);  // of -0, too
  }
};
struct Negation {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return -x;
  }
};
/// -1, 0 or 1; 0 for NaN.
struct Sign {
  template <class V>
  TW_INLINE V operator()(V x) const {
    const V one = tile::splat<V>(1);
    return tile::select(x > V{}, one, tile::select(x < V{}, -one, V{}));
  }
};
struct Reciprocal {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return 1 / x;
  }
};
struct SquareRoot {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::sqrt(x);
  }
};
struct ReciprocalRoot {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::rsqrt(x);
  }
};
struct Floor {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::floor(x);
  }
};
struct Ceil {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return -tile::floor(-x);
  }
};
struct Trunc {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::trunc(x);
  }
};
/// Ties to even.
struct Round {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::round(x);
  }
};
struct Sine {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::sin(x);
  }
};
struct Cosine {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::cos(x);
  }
};
struct Expm1 {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::expm1(x);
  }
};
struct Log1p {
  template <class V>
  TW_INLINE V operator()(V x) const {
    return tile::log1p(x);
  }
};

/// In the order of the schema of ops/unary.h.
using UnaryFunctions = OneOf<Absolute, Negation, Sign, Reciprocal, SquareRoot, ReciprocalRoot,
                             Floor, Ceil, Trunc, Round, Sine, Cosine, Expm1, Log1p>;

template <class T>
struct UnaryChoice {
  Rows<const T> x;  // [...]
  int function;
  Rows<T> out;  // [...], may alias x

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(out);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    UnaryFunctions::choose_within<P>(function, [&](auto f) {
      elementwise<tile::compute_t<T>, tile::kMathChains>(p, out, f, x);
    });
  }
};

}  // namespace tw::kernels
