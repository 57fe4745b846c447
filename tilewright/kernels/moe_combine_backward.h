// Gradients of moe_combine: of a row of x, scale times the sum over the places (t, k) with
// positions[t, k] = s of weights[t, k] grad[t], in their order; of a weight, scale grad[t] . x[s].
//
// On a CPU phase 0 sorts the places by row (one program, a counting sort), phase 1 adds up the
// rows, phase 2 has the weights: a program has a token's. On a GPU listed_sums_gpu.h adds up the
// rows; beside its first phase a program has the weight of a place.
#pragma once

#include "tilewright/kernels/listed_sums_gpu.h"
#include "tilewright/kernels/row_positions.h"

namespace tw::kernels {

template <class T>
struct MoeCombineBackward {
  static constexpr int64_t kRows = 32;  // of x, per program
  static constexpr int kGpuRegisters = 128;

  Rows<const T> grad;                // [tokens, cols]
  Rows<const T> x;                   // [rows, cols]
  View<const int32_t, 2> positions;  // [tokens, top_k], each a row; -1: none
  View<const float, 2> weights;      // [tokens, top_k], or no data: 1
  tile::compute_t<T> scale;
  View<T, 2> x_grad;            // [rows, cols]
  View<float, 2> weights_grad;  // [tokens, top_k], or no data

  TW_INLINE int64_t top_k() const { return positions.size(1); }
  TW_INLINE int64_t places() const { return positions.size(0) * top_k(); }
  TW_INLINE int64_t token_of(int64_t place) const { return index_quotient(place, top_k()); }
  TW_INLINE int64_t row_at(int64_t place) const {
    const int64_t token = token_of(place);
    return positions(token, place - token * top_k());
  }
  TW_INLINE float weight_at(int64_t place) const {
    const int64_t token = token_of(place);
    return scale * (weights ? weights(token, place - token * top_k()) : 1.0f);
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const bool has_weights(weights_grad);
    if constexpr (P::kOnGpu) {
      tile::Plan plan = on_gpu<P>().plan();
      if (has_weights) plan.grid[0] += places();
      return plan;
    }
    const int64_t rows = x.cols > 0 ? x.rows : 0;
    tile::Plan plan = tile::plan_of(1, x.cols * int64_t{sizeof(float)});
    plan.phases = 3;
    plan.grid[1] = (rows + kRows - 1) / kRows;
    plan.grid[2] = has_weights ? positions.size(0) : 0;
    plan.workspace_bytes = RowPositions::bytes(x.rows, places());
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if defined(__CUDACC__)
    const auto sums = on_gpu<P>();
    if (p.phase() > 0 || p.index() < sums.emptying()) return sums(p);
    weigh(p, p.index() - sums.emptying());
#else
    const RowPositions of{p.template workspace<int64_t>(), x.rows, places()};
    if (p.phase() == 0) return of.sort([&](int64_t i) { return row_at(i); });
    if (p.phase() == 2) {
      for (int64_t k = 0; k < top_k(); ++k) weigh(p, p.index() * top_k() + k);
      return;
    }
    const int64_t first = p.index() * kRows;
    for (int64_t s = first; s < first + kRows && s < x.rows; ++s)
      sum_rows(p, x_grad[s], [&](auto&& add) {
        of.for_each(s, [&](int64_t i) { add(grad.row(token_of(i)), weight_at(i)); });
      });
#endif
  }

 private:
  /// Each place's row is the one that it names, and adds the gradient of its token.
  struct Places {
    static constexpr bool kWeighs = true;
    const MoeCombineBackward& of;

    TW_INLINE int64_t count() const { return of.places(); }
    TW_INLINE int64_t row_of(int64_t i) const { return of.row_at(i); }
    TW_INLINE int64_t source(int64_t i) const { return of.token_of(i); }
    TW_INLINE float weight(int64_t i) const { return of.weight_at(i); }
  };
  template <class P>
  TW_INLINE ListedSums<P, T, Places> on_gpu() const {
    return {{*this}, grad, x_grad};
  }
  /// The gradient of a place's weight.
  template <class P>
  TW_CALLED void weigh(P p, int64_t place) const {
    const int64_t token = token_of(place), row = row_at(place);
    float& to = weights_grad(token, place - token * top_k());
    if (row < 0) {
      to = 0;
      return;
    }
    tile::require_index(p, row, x.rows);
    tile::with_rows(
        p,
        [&](const auto& from, const auto& slope) {
          to = scale * tile::reduce_row(p, tile::Sum{}, from, [&](auto at) {
                 return tile::load(from, at) * tile::load(slope, at);
               });
        },
        x.row(row), grad.row(token));
  }
};

}  // namespace tw::kernels
