// The gradient of means of stretches: of a row, the sum of the gradients of the stretches that have
// it, each divided by how many rows it has. One program per row.
#pragma once

#include "tilewright/kernels/row_positions.h"
#include "tilewright/tile/matches.h"

namespace tw::kernels {

template <class T, class I>
struct SegmentMeanBackward {
  View<const T, 3> grad;    // [B, N, C]
  View<const T, 3> x;       // [B, L, C], for its shape
  View<const I, 1> starts;  // [N], 0 <= starts[n] <= ends[n] <= L
  View<const I, 1> ends;    // [N]
  View<T, 3> x_grad;        // [B, L, C]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const int64_t cols = x_grad.size(2), rows = x_grad.size(0) * x_grad.size(1);
    return tile::plan_of(cols > 0 ? rows : 0, cols * int64_t{sizeof(float)}).over(cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const int64_t b = index_quotient(p.index(), x_grad.size(1));
    const int64_t row = p.index() - b * x_grad.size(1);
    sum_rows(p, x_grad[b][row], [&](auto&& add) {
      tile::for_each_match(
          p, starts.size(0),
          [&](int64_t n) { return int64_t(starts(n)) <= row && row < int64_t(ends(n)); },
          [&](int64_t n) {
            add(grad[b][n], 1.0f / static_cast<float>(int64_t(ends(n)) - int64_t(starts(n))));
          });
    });
  }
};

}  // namespace tw::kernels
