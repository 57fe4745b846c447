// log(sum_c exp(x[c])) of a row, as its largest value and the logarithm of the sum beside it. Long
// rows go block by block, with a running maximum (Milakov & Gimelshein, arXiv:1805.02867).
#pragma once

#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class C>
struct LogSumExp {
  C high, log_sum;  // of a row of -inf alone: -inf, NaN
};

template <class C, class P>
TW_INLINE C scalar_exp(C value) {
  return tile::first_lane(tile::exp(tile::splat<typename P::template Vec<C>>(value)));
}
template <class C, class P>
TW_INLINE C scalar_log(C value) {
  return tile::first_lane(tile::log(tile::splat<typename P::template Vec<C>>(value)));
}

/// Columns that are read twice, once for their maximum: on a CPU so few that they are in L1 then,
/// on a GPU as many as are kept.
template <class P>
inline constexpr int64_t kLogSumExpBlock = P::kOnGpu ? 1 << 16 : 4096;

template <class P, class C, class T>
TW_INLINE int64_t logsumexp_scratch(int64_t cols) {
  return tile::kept_bytes<P, C, T>(cols < kLogSumExpBlock<P> ? cols : kLogSumExpBlock<P>);
}

/// Goes on with a block of a row of which `high` and `total` tell: the largest before it, and the
/// sum of exponentials of differences from it.
template <class C, class P, class Block>
TW_INLINE void add_exponentials(P p, const Block& block, C& high, C& total) {
  const C before = high;
  high = tile::Max::combine(high, tile::reduce_row<C>(p, tile::Max{}, block, [&](auto at) {
                              return tile::load(block, at);
                            }));
  if (total != 0) total *= scalar_exp<C, P>(before - high);
  if (high == C(-__builtin_inf())) return;  // -inf - -inf is NaN, but these weigh nothing
  // Of differences, so that the weight of the largest is 1: losses near zero depend on it.
  total += tile::reduce_row<C, tile::kMathChains>(p, tile::Sum{}, block, [&](auto at) TW_INLINED {
    return tile::exp_nonpositive(tile::load(block, at) - high);
  });
}

/// The plan's scratch begins with logsumexp_scratch.
template <class C, class P, class Row>
TW_INLINE LogSumExp<C> row_logsumexp(P p, const Row& row) {
  constexpr int64_t kBlock = kLogSumExpBlock<P>;
  C high = C(-__builtin_inf()), total = 0;
  for (int64_t begin = 0; begin < row.size(0); begin += kBlock) {
    const int64_t rest = row.size(0) - begin;
    const auto block = tile::keep_row<C>(p, row.part(begin, rest < kBlock ? rest : kBlock));
    add_exponentials(p, block, high, total);
  }
  return {high, scalar_log<C, P>(total)};
}

}  // namespace tw::kernels
