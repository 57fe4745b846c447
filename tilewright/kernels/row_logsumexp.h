// log(sum_c exp(x[c])) of a row, as its largest value and the logarithm of the sum beside it.
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

/// Block by block, so that a block is in L1 when its exponentials follow its maximum.
template <class C, class P, class T>
TW_INLINE LogSumExp<C> row_logsumexp(P p, const View<T, 1>& row) {
  constexpr int64_t kBlock = 4096;
  constexpr C kLow = C(-__builtin_inf());
  C high = kLow, total = 0;
  for (int64_t begin = 0; begin < row.size(0); begin += kBlock) {
    const int64_t rest = row.size(0) - begin;
    const View<T, 1> block{
        row.data + begin * row.stride(0), {rest < kBlock ? rest : kBlock}, {row.stride(0)}};
    const C before = high;
    high = tile::Max::combine(high,
                              tile::reduce_row<C>(p, tile::Max{}, block.size(0),
                                                  [&](auto at) { return tile::load(block, at); }));
    if (total != 0) total *= scalar_exp<C, P>(before - high);
    if (high == kLow) continue;  // -inf - -inf is NaN, but these weigh nothing
    total += tile::reduce_row<C>(p, tile::Sum{}, block.size(0), [&](auto at) {
      return tile::exp_nonpositive(tile::load(block, at) - high);
    });
  }
  return {high, scalar_log<C, P>(total)};
}

}  // namespace tw::kernels
