// Gradients of out = f(gate) * up:
//
//   gate_grad = grad * up * f'(gate)
//   up_grad   = grad * f(gate)
#pragma once

#include "tilewright/kernels/elementwise.h"
#include "tilewright/kernels/slope.h"

namespace tw::kernels {

namespace detail {
template <class S, class P, class T>
TW_INLINE void gated_backward(P p, const Rows<const T>& grad, const Rows<const T>& gate,
                              const Rows<const T>& up, const Rows<T>& gate_grad,
                              const Rows<T>& up_grad) {
  using C = tile::compute_t<T>;
  const auto slopes = [](auto d, auto g, auto u) TW_INLINED {
    const auto f = S{}(g);
    return tile::two_of(d * u * f.slope, d * f.value);
  };
  if constexpr (P::kOnGpu) {
    const auto run = [&](int64_t, const auto& d, const auto& g, const auto& u, const auto& to_g,
                         const auto& to_u) { tile::map_to_two<C>(p, to_g, to_u, slopes, d, g, u); };
    with_block(p, grad, run, gate, up, gate_grad, up_grad);
  } else {
    const ElementwiseBlock block = block_of(p, grad);
    const auto run = [&](const auto& grads, const auto& gates, const auto& ups,
                         const auto& gate_grads, const auto& up_grads) {
      for (int64_t r = block.first_row; r < block.end_row; ++r) {
        const auto part = [&](const auto& rows) {
          return rows.row(r).part(block.begin, block.count);
        };
        tile::map_to_two<C, tile::kMathChains>(p, part(gate_grads), part(up_grads), slopes,
                                               part(grads), part(gates), part(ups));
      }
    };
    tile::with_rows<C>(p, run, grad, gate, up, gate_grad, up_grad);
  }
}
}  // namespace detail

/// The work of one program of a kernel with row_operands grad, gate, up, gate_grad, up_grad. S: a
/// functor of slope.h.
template <class S, class P, class Kernel>
TW_INLINE void gated_backward(P p, const Kernel& kernel) {
  kernel.row_operands([&](const auto&... rows) { detail::gated_backward<S>(p, rows...); });
}

/// gate and up are the halves of each row of x.
template <class T, class S>
struct GatedBackward {
  Rows<const T> grad;  // [*, H]
  Rows<const T> x;     // [*, 2 H]
  Rows<T> x_grad;      // [*, 2 H], may alias x

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(grad, half(x, 0), half(x, 1), half(x_grad, 0), half(x_grad, 1));
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(grad);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    gated_backward<S>(p, *this);
  }

 private:
  template <class U>
  TW_INLINE Rows<U> half(Rows<U> rows, int which) const {
    rows.cols = grad.cols;
    rows.data += which * grad.cols * rows.col_stride;
    return rows;
  }
};

}  // namespace tw::kernels
