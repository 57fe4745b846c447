// Gradients of moe_combine: of a row of x, scale times the sum over the places (t, k) with
// positions[t, k] = s of weights[t, k] grad[t], in their order; of a weight, scale grad[t] . x[s].
//
// On a CPU phase 0 sorts the places by row (one program, a counting sort), phase 1 adds up the
// rows, phase 2 has the weights. On a GPU a program has one row and looks for its places itself.
#pragma once

#include "tilewright/kernels/row_positions.h"
#include "tilewright/tile/matches.h"

namespace tw::kernels {

template <class T>
struct MoeCombineBackward {
  static constexpr int64_t kRows = 32;  // of x, per program

  View<const T, 2> grad;             // [tokens, cols]
  View<const T, 2> x;                // [rows, cols]
  View<const int32_t, 2> positions;  // [tokens, top_k], each a row; -1: none
  View<const float, 2> weights;      // [tokens, top_k], or no data: 1
  tile::compute_t<T> scale;
  View<T, 2> x_grad;            // [rows, cols]
  View<float, 2> weights_grad;  // [tokens, top_k], or no data

  TW_INLINE int64_t top_k() const { return positions.size(1); }
  TW_INLINE int64_t places() const { return positions.size(0) * top_k(); }
  TW_INLINE int64_t row_at(int64_t place) const {
    const int64_t token = index_quotient(place, top_k());
    return positions(token, place - token * top_k());
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const int64_t cols = x.size(1), rows = cols > 0 ? x.size(0) : 0;
    tile::Plan plan = tile::plan_of(rows, cols * int64_t{sizeof(float)}).over(cols);
    const int64_t tokens = weights_grad ? positions.size(0) : 0;
    plan.phases = P::kOnGpu ? 2 : 3;
    plan.grid[plan.phases - 1] = tokens;
    if constexpr (!P::kOnGpu) {
      plan.grid[0] = 1;
      plan.grid[1] = (rows + kRows - 1) / kRows;
      plan.workspace_bytes = RowPositions::bytes(x.size(0), places());
    }
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if (p.phase() == (P::kOnGpu ? 1 : 2)) return token(p);
    if constexpr (P::kOnGpu) {
      sum_rows(p, x_grad[p.index()], [&](auto&& add) {
        tile::for_each_match(
            p, places(), [&](int64_t i) { return row_at(i) == p.index(); },
            [&](int64_t i) { add_place(i, add); });
      });
      return;
    }
    const RowPositions of{p.template workspace<int64_t>(), x.size(0), places()};
    if (p.phase() == 0) return of.sort([&](int64_t i) { return row_at(i); });
    const int64_t first = p.index() * kRows;
    for (int64_t s = first; s < first + kRows && s < x.size(0); ++s)
      sum_rows(p, x_grad[s],
               [&](auto&& add) { of.for_each(s, [&](int64_t i) { add_place(i, add); }); });
  }

 private:
  template <class F>
  TW_INLINE void add_place(int64_t place, F&& add) const {
    const int64_t t = index_quotient(place, top_k());
    add(grad[t], scale * (weights ? weights(t, place - t * top_k()) : 1.0f));
  }
  template <class P>
  TW_INLINE void token(P p) const {
    const int64_t t = p.index();
    for (int64_t k = 0; k < top_k(); ++k) {
      const int64_t row = positions(t, k);
      if (row < 0) {
        weights_grad(t, k) = 0;
        continue;
      }
      tile::require_index(p, row, x.size(0));
      const auto from = x[row], slope = grad[t];
      weights_grad(t, k) = scale * tile::reduce_row(p, tile::Sum{}, x.size(1), [&](auto at) {
                             return tile::load(from, at) * tile::load(slope, at);
                           });
    }
  }
};

}  // namespace tw::kernels
