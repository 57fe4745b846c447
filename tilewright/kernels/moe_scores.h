// What moe_topk and its gradient make of a token's gating.
#pragma once

#include "tilewright/kernels/row_logsumexp.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// Of what can still be chosen, the lowest: also for NaN.
inline constexpr float kLowestGate = -0x1.fffffep127f;

/// Writes the scores, but for a factor, and gives what they are to be divided by. scoring 0:
/// softmax, 1: sigmoid.
template <class P, class Row, class Scores>
TW_INLINE float moe_scores(P p, const Row& row, int scoring, const Scores& scores) {
  if (scoring == 1) {
    tile::for_row(p, row, [&](auto at) {
      tile::store_cached(scores, at, 1.0f / (1.0f + tile::exp(0.0f - tile::load(row, at))));
    });
    tile::sync(p);
    return 1;
  }
  const float high =
      tile::reduce_row(p, tile::Max{}, row, [&](auto at) { return tile::load(row, at); });
  const float total = tile::reduce_row(p, tile::Sum{}, row, [&](auto at) {
    const auto weight = tile::exp(tile::load(row, at) - high);
    tile::store_cached(scores, at, weight);
    return weight;
  });
  tile::sync(p);
  return total;
}

}  // namespace tw::kernels
