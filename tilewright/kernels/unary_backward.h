//   x_grad = f(grad, y), elementwise, for a functor f on vectors. y is the input of the operator or
//   its output, whichever gives the derivative with less work.
#pragma once

#include "tilewright/kernels/elementwise.h"
#include "tilewright/kernels/slope.h"

namespace tw::kernels {

template <class T, class F>
struct UnaryBackward {
  Rows<const T> grad;  // [...]
  Rows<const T> y;     // [...]
  Rows<T> x_grad;      // [...], may alias grad or y

  template <class G>
  TW_INLINE auto row_operands(G&& g) const {
    return g(grad, y, x_grad);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(x_grad);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    elementwise<tile::compute_t<T>, tile::kMathChains>(p, x_grad, F{}, grad, y);
  }
};

/// Of the input, by a functor of slope.h.
template <class S>
struct OfInput {
  template <class V>
  TW_INLINE V operator()(V grad, V x) const {
    return grad * S{}(x).slope;
  }
};
struct ReluOfOutput {
  template <class V>
  TW_INLINE V operator()(V grad, V output) const {
    return tile::select(output <= V{}, V{}, grad);
  }
};
struct SigmoidOfOutput {
  template <class V>
  TW_INLINE V operator()(V grad, V output) const {
    return grad * output * (1 - output);
  }
};
struct TanhOfOutput {
  template <class V>
  TW_INLINE V operator()(V grad, V output) const {
    return grad * (1 - output * output);
  }
};

template <class T>
struct GeluBackward {
  Rows<const T> grad;  // [...]
  Rows<const T> x;     // [...]
  int approximate;     // 0: none, 1: tanh
  Rows<T> x_grad;      // [...], may alias grad or x

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
    using C = tile::compute_t<T>;
    if (approximate)
      elementwise<C, tile::kMathChains>(p, x_grad, OfInput<GeluTanhSlope>{}, grad, x);
    else
      elementwise<C, tile::kMathChains>(p, x_grad, OfInput<GeluSlope>{}, grad, x);
  }
};

}  // namespace tw::kernels
