// What the experts made of each token, in one row: out[t] = scale * sum over k of
// weights[t, k] x[positions[t, k]], float32 sums. One program per token.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct MoeCombine {
  View<const T, 2> x;                // [rows, cols]
  View<const int32_t, 2> positions;  // [tokens, top_k], each a row; -1: none
  View<const float, 2> weights;      // [tokens, top_k], or no data: 1
  tile::compute_t<T> scale;
  View<T, 2> out;  // [tokens, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(out.size(1) > 0 ? out.size(0) : 0).over(out.size(1));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    using V = typename P::template Vec<float>;
    const int64_t token = p.index();
    const View<T, 1> to = out[token];
    tile::for_row(p, to, [&](auto at) {
      V sum = tile::splat<V>(0.0f);
      for (int64_t k = 0; k < positions.size(1); ++k) {
        const int64_t row = positions(token, k);
        if (row < 0) continue;
        tile::require_index(p, row, x.size(0));
        const float weight = weights ? weights(token, k) : 1.0f;
        sum = tile::fma(tile::splat<V>(weight), tile::load(x[row], at), sum);
      }
      tile::store(p, to, at, sum * scale);
    });
  }
};

}  // namespace tw::kernels
