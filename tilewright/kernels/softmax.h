// Softmax over the last axis.
//
//   out[r, c] = exp(x[r, c] - max_c x[r, :]) / sum_c exp(x[r, c] - max_c x[r, :])
//
// The row is read from memory once, block by block: a block is in L1 when its exponentials follow
// its maximum. They are taken against the largest value so far, stay in scratch, and are scaled to
// the final maximum at the end (Milakov & Gimelshein, arXiv:1805.02867). One program per row;
// arithmetic in float32, so that a bf16 row keeps its small weights.
//
// On a GPU the row stays in registers, and an exponential computed twice costs less than memory.
#pragma once

#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct Softmax {
  using C = tile::compute_t<T>;
  static constexpr int64_t kBlock = 4096;  // 16 KiB of float32: half of the smallest L1

  Rows<const T> x;  // [*, cols]
  int64_t dim;      // the caller moved this dimension into the last place
  Rows<T> out;      // [*, cols], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const int64_t blocks = (x.cols + kBlock - 1) / kBlock;
    const int64_t scratch = P::kOnGpu ? 0 : (x.cols + blocks) * int64_t{sizeof(C)};
    return tile::plan_of(x.cols > 0 ? x.rows : 0, scratch).over(x.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu)
      keep_row(p);
    else
      walk_blocks(p);
  }

 private:
  template <class P>
  TW_DEVICE void keep_row(P p) const {
    tile::with_rows<C>(
        p,
        [&](const auto& row, const auto& to) {
          const auto from = tile::keep_row<C>(p, row);
          const C high = tile::reduce_row<C>(p, tile::Max{}, from,
                                             [&](auto at) { return tile::load(from, at); });
          const C base = high == C(-__builtin_inf()) ? C(0) : high;
          const auto weight = [&](auto at) {
            return tile::exp_nonpositive(tile::load(from, at) - base);
          };
          const C scale = 1 / tile::reduce_row<C>(p, tile::Sum{}, from, weight);
          tile::for_row<C>(p, from, [&](auto at) { tile::store(p, to, at, weight(at) * scale); });
        },
        x.row(p.index()), out.row(p.index()));
  }

  template <class P>
  TW_DEVICE void walk_blocks(P p) const {
    const auto from = x.row(p.index());
    const auto to = out.row(p.index());
    C* const weights = p.template scratch<C>();
    C* const highs = weights + x.cols;  // the largest value up to the end of each block

    constexpr C kLow = C(-__builtin_inf());
    C high = kLow, total = 0;
    for (int64_t begin = 0; begin < x.cols; begin += kBlock) {
      const auto block = part(from, begin);
      const C before = high;
      high = tile::Max::combine(
          high, tile::reduce_row<C>(p, tile::Max{}, block.size(0),
                                    [&](auto at) { return tile::load(block, at); }));
      if (total != 0) total *= exp_of<P>(before - high);
      const C base = high == kLow ? C(0) : high;  // -inf - -inf is NaN, but these weigh nothing
      const auto e = part(view(weights, x.cols), begin);
      total += tile::reduce_row<C>(p, tile::Sum{}, block.size(0), [&](auto at) {
        const auto weight = tile::exp_nonpositive(tile::load(block, at) - base);
        tile::store_cached(e, at, weight);
        return weight;
      });
      highs[begin / kBlock] = high;
    }
    const C base = high == kLow ? C(0) : high;
    for (int64_t begin = 0; begin < x.cols; begin += kBlock) {
      const C scale = exp_of<P>(highs[begin / kBlock] - base) / total;
      const auto e = part(view(weights, x.cols), begin);
      const auto block = part(to, begin);
      tile::for_row<C>(p, e.size(0),
                       [&](auto at) { tile::store(p, block, at, tile::load(e, at) * scale); });
    }
  }

  template <class P>
  TW_INLINE static C exp_of(C value) {
    return tile::first_lane(tile::exp_nonpositive(tile::splat<typename P::template Vec<C>>(value)));
  }
  template <class U>
  TW_INLINE static View<U, 1> part(const View<U, 1>& row, int64_t begin) {
    const int64_t rest = row.size(0) - begin;
    return {row.data + begin * row.stride(0), {rest < kBlock ? rest : kBlock}, {row.stride(0)}};
  }
};

}  // namespace tw::kernels
