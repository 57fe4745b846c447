//   x_grad = grad f'(x), elementwise, for one of the functions of one number.
#pragma once

#include "tilewright/kernels/unary_functions.h"

namespace tw::kernels {

/// Of what goes in steps: the gradient is 0, whatever comes in.
struct FlatSlope {
  template <class V>
  TW_INLINE V operator()(V, V) const {
    return V{};
  }
};
struct AbsoluteSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x) const {
    return grad * Sign{}(x);
  }
};
struct NegationSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V) const {
    return -grad;
  }
};
struct ReciprocalSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x) const {
    const V inverse = 1 / x;
    return -grad * (inverse * inverse);
  }
};
struct SquareRootSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x) const {
    return grad / (2 * tile::sqrt(x));
  }
};
struct ReciprocalRootSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x) const {
    const V root = 1 / tile::sqrt(x);
    return -0.5f * grad * (root * root * root);
  }
};
struct SineSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x) const {
    return grad * tile::cos(x);
  }
};
struct CosineSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x) const {
    return -grad * tile::sin(x);
  }
};
struct Expm1Slope {
  template <class V>
  TW_INLINE V operator()(V grad, V x) const {
    return grad * tile::exp(x);
  }
};
struct Log1pSlope {
  template <class V>
  TW_INLINE V operator()(V grad, V x) const {
    return grad / (x + 1.0f);
  }
};

/// In the order of the schema of ops/unary.h.
using UnarySlopes = OneOf<AbsoluteSlope, NegationSlope, FlatSlope, ReciprocalSlope, SquareRootSlope,
                          ReciprocalRootSlope, FlatSlope, FlatSlope, FlatSlope, FlatSlope,
                          SineSlope, CosineSlope, Expm1Slope, Log1pSlope>;
static_assert(UnarySlopes::kCount == UnaryFunctions::kCount);

template <class T>
struct UnaryChoiceBackward {
  Rows<const T> grad;  // [...]
  Rows<const T> x;     // [...]
  int function;
  Rows<T> x_grad;  // [...], may alias grad or x

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(grad, x, x_grad);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(x_grad);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    UnarySlopes::choose_within<P>(
        function, [&](auto f) { elementwise<tile::compute_t<T>>(p, x_grad, f, grad, x); });
  }
};

}  // namespace tw::kernels
