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
  static constexpr int64_t kBlock = 1024;

  Rows<const T> x;    // [*, cols], cols > 0
  int64_t dim;        // the caller moved this dimension into the last place
  Rows<int64_t> out;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu) return tile::plan_of(x.rows).over(x.cols < 4096 ? x.cols : 4096);
    return tile::plan_of(x.rows);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu)
      keep_row(p);
    else
      run_row(p);
  }

 private:
  /// On a GPU, a block of the row in registers at a time.
  template <class P>
  TW_DEVICE void keep_row(P p) const {
    constexpr int64_t kKept = 4096;
    const auto row = x.row(p.index());
    C best = C(-__builtin_inf());
    int64_t begin_of_best = 0;
    for (int64_t begin = 0; begin < x.cols && best == best; begin += kKept) {
      const int64_t rest = x.cols - begin, count = rest < kKept ? rest : kKept;
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
    const auto block = row_part(row, begin_of_best, rest < kKept ? rest : kKept);
    out(p.index(), 0) = begin_of_best + first_of(p, block, best);
  }
  TW_INLINE static View<const T, 1> row_part(const View<const T, 1>& row, int64_t begin,
                                             int64_t count) {
    return {row.data + begin * row.stride(0), {count}, {row.stride(0)}};
  }

  /// The first column of `block`, which has it, that holds `value`, NaN for NaN.
  template <class P>
  TW_INLINE static int64_t first_of(P p, const View<const T, 1>& block, C value) {
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
  }

  template <class P>
  TW_DEVICE void run_row(P p) const {
    tile::with_rows(
        p, [&](const auto& in) { out(p.index(), 0) = first_of_largest(p, in.row(p.index())); }, x);
  }

  template <class P, class Row>
  TW_INLINE int64_t first_of_largest(P p, const Row& row) const {
    C best = C(-__builtin_inf());
    int64_t begin_of_best = 0;
    for (int64_t begin = 0; begin < x.cols && best == best; begin += kBlock) {
      const auto block = row.part(begin, size_of_block(begin));
      const C high = tile::reduce_row<C>(p, tile::Max{}, block.size(0),
                                         [&](auto at) { return tile::load(block, at); });
      if (high <= best) continue;  // false for NaN
      best = high;
      begin_of_best = begin;
    }
    const auto block = row.part(begin_of_best, size_of_block(begin_of_best));
    const C first = tile::reduce_row<C>(p, tile::Min{}, block.size(0), [&](auto at) {
      using V = decltype(tile::load(block, at));
      const V v = tile::load(block, at);
      const V column = tile::columns<C>(at);  // exact: blocks are short
      const V none = tile::splat<V>(kBlock);
      return best == best ? tile::select(v == best, column, none)
                          : tile::select(v != v, column, none);
    });
    return begin_of_best + int64_t(first);
  }
  TW_INLINE int64_t size_of_block(int64_t begin) const {
    return x.cols - begin < kBlock ? x.cols - begin : kBlock;
  }
};

}  // namespace tw::kernels
