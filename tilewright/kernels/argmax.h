// The index of the largest value of each row; the first one of equals. NaN is larger than anything.
//
// The row is read once: a block's maximum first, and only the block that holds the row's maximum is
// searched for it. One program per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct Argmax {
  using C = tile::compute_t<T>;
  static constexpr int64_t kBlock = 4096;

  Rows<const T> x;    // [*, cols], cols > 0
  int64_t dim;        // the caller moved this dimension into the last place
  Rows<int64_t> out;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.rows).over(x.cols < kBlock ? x.cols : kBlock);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto row = x.row(p.index());
    C best = C(-__builtin_inf());
    int64_t begin_of_best = 0;
    for (int64_t begin = 0; begin < x.cols && best == best; begin += kBlock) {
      const int64_t rest = x.cols - begin, count = rest < kBlock ? rest : kBlock;
      const auto part = row_part(row, begin, count);
      C high = 0;
      tile::with_rows<C>(
          p,
          [&](const auto& whole) {
            const auto block = tile::keep_row<C>(p, whole);
            high = tile::reduce_row<C>(p, tile::Max{}, block,
                                       [&](auto at) { return tile::load(block, at); });
          },
          part);
      if (high <= best) continue;  // false for NaN
      best = high;
      begin_of_best = begin;
    }
    const int64_t rest = x.cols - begin_of_best;
    const auto block = row_part(row, begin_of_best, rest < kBlock ? rest : kBlock);
    out(p.index(), 0) = begin_of_best + first_of(p, block, best);
  }

 private:
  TW_INLINE static View<const T, 1> row_part(const View<const T, 1>& row, int64_t begin,
                                             int64_t count) {
    return {row.data + begin * row.stride(0), {count}, {row.stride(0)}};
  }

  /// The first column of `block`, which has it, that holds `value`, NaN for NaN.
  template <class P>
  TW_INLINE static int64_t first_of(P p, const View<const T, 1>& block, C value) {
    if constexpr (P::kOnGpu) {  // all threads look; column numbers of a block are exact in C
      constexpr C kNone = C(__builtin_inf());
      C first = kNone;
      tile::with_rows<C>(
          p,
          [&](const auto& row) {
            first = tile::reduce_row<C>(p, tile::Min{}, row, [&](auto at) {
              const auto v = tile::load(row, at);
              using V = decltype(v + v);
              const auto here =
                  (v == value) | ((v != v) & tile::splat<decltype(v != v)>(value != value));
              return tile::select(here, tile::iota<V>(C(at.offset)), tile::splat<V>(kNone));
            });
          },
          block);
      return int64_t(first);
    } else {
      int64_t c = 0;
      for (; c < block.size(0) - 1; ++c) {
        const C at = C(block(c));
        if (at == value || (value != value && at != at)) break;
      }
      return c;
    }
  }
};

}  // namespace tw::kernels
