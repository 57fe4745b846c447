// out = silu(gate) * up, and its gradients. Shazeer, arXiv:2002.05202, eq. 6.
#pragma once

#include "tilewright/kernels/activation.h"
#include "tilewright/kernels/gated_backward.h"

namespace tw::kernels {

template <class T>
struct Swiglu {
  Rows<const T> gate;  // [...]
  Rows<const T> up;    // [...]
  Rows<T> out;         // [...], may alias gate or up

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(gate, up, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(out);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    using C = tile::compute_t<T>;
    elementwise<C, tile::kMathChains>(
        p, out, [](auto g, auto u) TW_INLINED { return Silu{}(g)*u; }, gate, up);
  }
};

template <class T>
struct SwigluBackward {
  Rows<const T> grad;  // [...]
  Rows<const T> gate;  // [...]
  Rows<const T> up;    // [...]
  Rows<T> gate_grad;   // [...], may alias gate
  Rows<T> up_grad;     // [...], may alias up

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(grad, gate, up, gate_grad, up_grad);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(grad);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    gated_backward<SiluSlope>(p, *this);
  }
};

}  // namespace tw::kernels
