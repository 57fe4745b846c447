// What the experts made of each token, in one row: out[t] = scale * sum over k of
// weights[t, k] x[positions[t, k]], float32 sums. One program per token.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct MoeCombine {
  Rows<const T> x;                   // [rows, cols]
  View<const int32_t, 2> positions;  // [tokens, top_k], each a row; -1: none
  View<const float, 2> weights;      // [tokens, top_k], or no data: 1
  tile::compute_t<T> scale;
  View<T, 2> out;  // [tokens, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    // a span for each thread of a GPU: rows in turn are waiting enough
    return tile::plan_of(out.size(1) > 0 ? out.size(0) : 0).over(4 * out.size(1));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    tile::with_rows(
        p, [&](const auto& from, const auto& to) { combine(p, from, to); }, x, out[p.index()]);
  }

 private:
  template <class P, class From, class To>
  TW_INLINE void combine(P p, const From& from, const To& to) const {
    using V = typename P::template Vec<float>;
    // Rows that are asked for before any is waited for: what registers leave room for.
    constexpr int kAtOnce = tile::same_type<To, View<T, 1>> ? 1 : sizeof(T) > 2 ? 2 : 4;
    const int64_t token = p.index(), top_k = positions.size(1);
    tile::for_row(p, to, [&](auto at) {
      V sum = tile::splat<V>(0.0f);
      for (int64_t first = 0; first < top_k; first += kAtOnce) {
        decltype(tile::load_raw(from.row(0), at)) parts[kAtOnce];
        int32_t rows[kAtOnce];
        TW_UNROLL
        for (int i = 0; i < kAtOnce; ++i) {
          rows[i] = row_of(p, token, first + i);
          if (rows[i] >= 0) parts[i] = tile::load_raw(from.row(rows[i]), at);
        }
        TW_UNROLL
        for (int i = 0; i < kAtOnce; ++i)
          if (rows[i] >= 0) {
            const V weight = tile::splat<V>(weights ? weights(token, first + i) : 1.0f);
            sum = tile::fma(weight, parts[i].template widen<float>(), sum);
          }
      }
      tile::store(p, to, at, sum * scale);
    });
  }
  /// -1 where there is none.
  template <class P>
  TW_INLINE int32_t row_of(P p, int64_t token, int64_t k) const {
    const int32_t row = k < positions.size(1) ? positions(token, k) : -1;
    if (row >= 0) tile::require_index(p, row, x.rows);
    return row;
  }
};

}  // namespace tw::kernels
