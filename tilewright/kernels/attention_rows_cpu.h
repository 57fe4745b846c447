// Rows of queries whose scores against a block of keys are in L1 together, on the CPU.
#pragma once

#include "tilewright/kernels/attention_pack_cpu.h"

namespace tw::kernels::attention_detail {

template <class P>
struct ScoredRows {
  int64_t first, rows;
  KeyRange keys;  // of any row, counted from the block's start
  KeyRange tile_keys[kScoreRows / kTileRows<P>];
  KeyRange row_keys[kScoreRows];
  BlockStats stats[kScoreRows];

  TW_INLINE int64_t tiles() const { return (rows + kTileRows<P> - 1) / kTileRows<P>; }
  TW_INLINE int rows_in_tile(int64_t tile) const {
    const int64_t rest = rows - tile * kTileRows<P>;
    return rest < kTileRows<P> ? int(rest) : kTileRows<P>;
  }
};

/// Joins a block's maximum and sum to a row's, and gives the factors for its values.
template <class P>
TW_INLINE void merge_stats(P, BlockStats block, BlockStats& state, float& keep, float& add) {
  const float high = block.m > state.m ? block.m : state.m;
  typename P::f32 exponents{};
  exponents[0] = state.m - base_of(high);
  exponents[1] = block.m - base_of(high);
  const auto factors = tile::exp2_nonpositive(exponents);
  keep = factors[0];
  add = factors[1];
  state.l = tile::fma(block.l, add, state.l * keep);
  state.m = high;
}

/// Joins the statistics of `from` to those of its rows; says how their values are merged.
template <class P>
TW_INLINE MergeFactors merge_stats(P p, const ScoredRows<P>& from, BlockStats* states) {
  MergeFactors factors;
  for (int r = 0; r < kScoreRows; ++r) {
    if (r >= from.rows || from.row_keys[r].empty())
      factors.keep[r] = -1, factors.add[r] = 0;
    else
      merge_stats(p, from.stats[r], states[r], factors.keep[r], factors.add[r]);
  }
  return factors;
}

}  // namespace tw::kernels::attention_detail
