// Softmax over the last axis.
//
//   out[r, c] = exp(x[r, c] - max_c x[r, :]) / sum_c exp(x[r, c] - max_c x[r, :])
//
// Three passes over a row: its maximum; its exponentials, into scratch, and their sum; their
// quotients. The exponentials of a row are computed in the loop that writes the row before it and
// begins to fetch the row after it, so that memory is busy while arithmetic is. Arithmetic in
// float32, so that a bf16 row keeps its small weights.
#pragma once

#include "tilewright/kernels/row_pipeline.h"
#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct Softmax {
  using C = tile::compute_t<T>;

  Rows<const T> x;  // [*, cols]
  int64_t dim;      // the caller moved this dimension into the last place
  Rows<T> out;      // [*, cols], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    if constexpr (P::kOnGpu) return tile::plan_of(x.cols > 0 ? x.rows : 0).over(x.cols);
    const int64_t groups = x.cols > 0 ? tile::row_groups<P>(x.rows, x.cols, machine) : 0;
    return tile::plan_of(groups, 2 * x.cols * int64_t{sizeof(C)});  // of this row and the next
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu)
      keep_row(p);
    else
      run_rows(p);
  }

 private:
  /// On a GPU a program has one row, which stays in registers.
  template <class P>
  TW_DEVICE void keep_row(P p) const {
    tile::with_rows<C>(
        p,
        [&](const auto& row, const auto& to) {
          const auto from = tile::keep_row<C>(p, row);
          const C high = tile::reduce_row<C>(p, tile::Max{}, from,
                                             [&](auto at) { return tile::load(from, at); });
          const C base = high == C(-__builtin_inf()) ? C(0) : high;
          const auto weight = [&](auto at) { return tile::exp_below(tile::load(from, at), base); };
          const C scale = 1 / tile::reduce_row<C>(p, tile::Sum{}, from, weight);
          tile::for_row<C>(p, from, [&](auto at) { tile::store(p, to, at, weight(at) * scale); });
        },
        x.row(p.index()), out.row(p.index()));
  }

  template <class P>
  TW_DEVICE void run_rows(P p) const {
    const auto group = tile::row_group(p, x.rows, x.cols);
    const auto weights_of = [&](int64_t i) {
      return view(p.template scratch<C>() + i % 2 * x.cols, x.cols);
    };
    const auto run = [&](const auto& in, const auto& to) {
      pipeline_rows<C>(
          p, tile::Sum{}, group, x.cols,
          [&](int64_t i) {
            const auto row = in.row(i);
            const C high = tile::reduce_row<C>(p, tile::MaxOfNumbers{}, x.cols,
                                               [&](auto at) { return tile::load(row, at); });
            return high == C(-__builtin_inf()) ? C(0) : high;  // -inf - -inf would be NaN
          },
          [&](int64_t i, C base) {
            const auto ahead = in.row(i + 1 < group.last ? i + 1 : i);
            return [&p, base, ahead, row = in.row(i), weights = weights_of(i)](auto at) {
              tile::prefetch(p, ahead, at);
              const auto weight = tile::exp_nonpositive(tile::load(row, at) - base);
              tile::store_cached(weights, at, weight);
              return weight;
            };
          },
          [&](int64_t i, C, C total) {
            return [&p, scale = 1 / total, target = to.row(i), weights = weights_of(i)](auto at) {
              tile::store(p, target, at, tile::load(weights, at) * scale);
            };
          });
    };
    tile::with_rows(p, run, x, out);
  }
};

}  // namespace tw::kernels
