// Gradients of out = f(gate) * up:
//
//   gate_grad = grad * up * f'(gate)
//   up_grad   = grad * f(gate)
#pragma once

#include "tilewright/kernels/elementwise.h"
#include "tilewright/kernels/slope.h"

namespace tw::kernels {

/// The work of one program. S: a functor of slope.h.
template <class S, class P, class T>
TW_INLINE void gated_backward(P p, const Rows<const T>& grad, const Rows<const T>& gate,
                              const Rows<const T>& up, const Rows<T>& gate_grad,
                              const Rows<T>& up_grad) {
  using C = tile::compute_t<T>;
  const ElementwiseGrid grid = ElementwiseGrid::of<P>(grad);
  const int64_t first_row = p.index() / grid.blocks_per_row * grid.rows_per_block;
  const int64_t begin = p.index() % grid.blocks_per_row * grid.block;
  const int64_t rest = grad.cols - begin, count = rest < grid.block ? rest : grid.block;
  const int64_t last_row = first_row + grid.rows_per_block;
  const auto run = [&](const auto& grads, const auto& gates, const auto& ups,
                       const auto& gate_grads, const auto& up_grads) {
    for (int64_t r = first_row; r < last_row && r < grad.rows; ++r) {
      const auto from = grads.row(r).part(begin, count);
      const auto g = gates.row(r).part(begin, count), u = ups.row(r).part(begin, count);
      const auto to_g = gate_grads.row(r).part(begin, count);
      const auto to_u = up_grads.row(r).part(begin, count);
      tile::for_row<C, tile::kMathChains>(p, from, [&](auto at) TW_INLINED {
        tile::prefetch_ahead(p, from, at);
        tile::prefetch_ahead(p, g, at);
        tile::prefetch_ahead(p, u, at);
        const auto d = tile::load(from, at);
        const auto f = S{}(tile::load(g, at));
        const auto slope = d * tile::load(u, at) * f.slope;
        tile::store(p, to_u, at, d * f.value);
        tile::store(p, to_g, at, slope);
      });
    }
  };
  tile::with_rows<C>(p, run, grad, gate, up, gate_grad, up_grad);
}

/// gate and up are the halves of each row of x.
template <class T, class S>
struct GatedBackward {
  Rows<const T> grad;  // [*, H]
  Rows<const T> x;     // [*, 2 H]
  Rows<T> x_grad;      // [*, 2 H], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return plan_elementwise<P>(grad);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    gated_backward<S>(p, grad, half(x, 0), half(x, 1), half(x_grad, 0), half(x_grad, 1));
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
