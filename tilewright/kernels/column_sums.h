// Sums over a dimension that is not the innermost in memory: elements side by side belong to
// different sums. Programs add up blocks of rows for a block of columns each; then the blocks are
// added in order, on a GPU in two steps, so that no thread waits for many loads one after another.
// The cut depends on the shape alone, so bits do not depend on the threads.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct ColumnSums {
  using C = tile::compute_t<T>;
  static constexpr int64_t kColumns = 512, kPrograms = 2048, kMinRows = 16;
  static constexpr int64_t kThreadColumns = 4;  // a thread of a GPU has one span, not four
  /// Rows summed by themselves, so that the error grows with these and hardly with all.
  static constexpr int64_t kRun = 64;

  Rows<const T> x;  // [outer, inner], each a sum over cols; inner is adjacent in memory
  int64_t inner = 0, outer = 0, column_blocks = 0, row_blocks = 0, rows_per_block = 0;

  /// Whether `x` is of that kind.
  TW_INLINE static bool takes(const Rows<const T>& x) {
    const int last = x.lead - 1;
    return x.lead_strides[last] == 1 && x.col_stride != 1 && x.lead_sizes[last] >= 8 && x.cols > 1;
  }

  ColumnSums() = default;
  TW_INLINE explicit ColumnSums(const Rows<const T>& from) : x(from) {
    inner = x.lead_sizes[x.lead - 1];
    outer = x.rows / inner;
    column_blocks = (inner + kColumns - 1) / kColumns;
    const int64_t most = (x.cols + kMinRows - 1) / kMinRows;
    const int64_t wanted = kPrograms / (outer * column_blocks);
    const int64_t count = wanted < 1 ? 1 : wanted < most ? wanted : most;
    rows_per_block = (x.cols + count - 1) / count;
    row_blocks = (x.cols + rows_per_block - 1) / rows_per_block;
  }

  template <class P>
  TW_INLINE tile::Plan plan() const {
    tile::Plan plan = tile::plan_of(outer * column_blocks * row_blocks)
                          .over_at_most(kThreadColumns * inner, kThreadColumns * kColumns);
    if (row_blocks == 1) return plan;
    plan.phases = groups<P>() > 1 ? 3 : 2;
    plan.grid[1] = outer * column_blocks * groups<P>();
    if (groups<P>() > 1) plan.grid[2] = outer * column_blocks;
    plan.workspace_bytes = x.rows * row_blocks * int64_t{sizeof(C)};
    return plan;
  }

  /// finish(row, at, values): the sums of out's rows from `row` + at's columns on.
  template <class P, class Finish>
  TW_INLINE void run(P p, Finish&& finish) const {
    const int64_t block = index_quotient(p.index(), column_blocks);
    const int64_t begin = (p.index() - block * column_blocks) * kColumns, rest = inner - begin;
    const int64_t n = rest < kColumns ? rest : kColumns;
    if (p.phase() > 0) return fold(p, block, begin, n, finish);
    add_block(p, block, begin, n, [&](auto at, auto total) {
      if (row_blocks == 1)
        finish(block * inner + begin, at, total);
      else
        tile::store_cached(partial(p, block, begin, n), at, total);
    });
  }

 private:
  /// Row blocks that one program adds up, and how many such programs come before the last one.
  template <class P>
  static constexpr int64_t kGroup = P::kOnGpu ? 16 : int64_t{1} << 40;
  template <class P>
  TW_INLINE int64_t groups() const {
    return (row_blocks + kGroup<P> - 1) / kGroup<P>;
  }

  /// Adds up the row blocks of group `block`, which counts groups, or in the last phase all groups.
  template <class P, class Finish>
  TW_INLINE void fold(P p, int64_t block, int64_t begin, int64_t n, Finish&& finish) const {
    using V = typename P::template Vec<C>;
    const int64_t parts = p.phase() == 1 ? groups<P>() : 1;
    const int64_t step = p.phase() == 1 ? 1 : kGroup<P>;
    const int64_t which = index_quotient(block, parts);
    const int64_t first = (block - which * parts) * kGroup<P>, left = row_blocks - first;
    const int64_t end = p.phase() == 1 && left > kGroup<P> ? first + kGroup<P> : row_blocks;
    tile::for_row<C>(p, n, [&](auto at) {
      V total{};
      TW_UNROLL_LOADS
      for (int64_t b = first; b < end; b += step)
        total += V(tile::load(partial(p, which * row_blocks + b, begin, n), at));
      if (parts == 1)
        finish(which * inner + begin, at, total);
      else
        tile::store_cached(partial(p, which * row_blocks + first, begin, n), at, total);
    });
  }

  template <class P>
  TW_INLINE View<C, 1> partial(P p, int64_t block, int64_t begin, int64_t n) const {
    return view(p.template workspace<C>() + block * inner + begin, n);
  }

  /// put(at, sums) of columns [begin, begin + n) of block `block`, counted over outer and row
  /// blocks.
  template <class P, class Put>
  TW_INLINE void add_block(P p, int64_t block, int64_t begin, int64_t n, Put&& put) const {
    using V = typename P::template Vec<C>;
    const int64_t which = index_quotient(block, row_blocks);
    const int64_t first = (block - which * row_blocks) * rows_per_block, left = x.cols - first;
    const int64_t count = left < rows_per_block ? left : rows_per_block;
    Rows<const T> here;
    here.data = x.row(which * inner).data + begin + first * x.col_stride;
    here.rows = here.lead_sizes[0] = count;
    here.cols = n;
    here.lead_strides[0] = x.col_stride;
    const auto run = [&](const auto& in) {
      tile::for_row<C>(p, in.row(0), [&](auto at) {
        V total{};
        for (int64_t r = 0; r < count; r += kRun) {
          V sum{};
          const int64_t end = r + kRun < count ? r + kRun : count;
          TW_UNROLL_LOADS
          for (int64_t i = r; i < end; ++i) sum += V(tile::load(in.row(i), at));
          total += sum;
        }
        put(at, total);
      });
    };
    tile::with_rows<C>(p, run, here);
  }
};

}  // namespace tw::kernels
