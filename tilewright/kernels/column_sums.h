// Sums over a dimension that is not the innermost in memory: elements side by side belong to
// different sums. Programs add up blocks of rows for a block of columns each; then the blocks are
// added in order. The cut depends on the shape alone, so bits do not depend on the threads.
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

  const Rows<const T>& x;  // [outer, inner], each a sum over cols; inner is adjacent in memory
  int64_t inner = 0, outer = 0, column_blocks = 0, row_blocks = 0, rows_per_block = 0;

  /// Whether `x` is of that kind.
  TW_INLINE static bool takes(const Rows<const T>& x) {
    const int last = x.lead - 1;
    return x.lead_strides[last] == 1 && x.col_stride != 1 && x.lead_sizes[last] >= 8 && x.cols > 1;
  }

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

  TW_INLINE tile::Plan plan() const {
    tile::Plan plan = tile::plan_of(outer * column_blocks * row_blocks)
                          .over_at_most(kThreadColumns * inner, kThreadColumns * kColumns);
    plan.phases = 2;
    plan.grid[1] = outer * column_blocks;
    plan.workspace_bytes = x.rows * row_blocks * int64_t{sizeof(C)};
    return plan;
  }

  /// finish(row, column, at, values): the sums of out's rows from `row` + `column` on.
  template <class P, class Finish>
  TW_INLINE void run(P p, Finish&& finish) const {
    const int64_t block = index_quotient(p.index(), column_blocks);
    const int64_t begin = (p.index() - block * column_blocks) * kColumns, rest = inner - begin;
    const int64_t n = rest < kColumns ? rest : kColumns;
    if (p.phase() == 0) return add_block(p, block, begin, n);
    using V = typename P::template Vec<C>;
    tile::for_row<C>(p, n, [&](auto at) {
      V total{};
      TW_UNROLL_LOADS
      for (int64_t b = 0; b < row_blocks; ++b)
        total += V(tile::load(partial(p, block * row_blocks + b, begin, n), at));
      finish(block * inner + begin, at, total);
    });
  }

 private:
  template <class P>
  TW_INLINE View<C, 1> partial(P p, int64_t block, int64_t begin, int64_t n) const {
    return view(p.template workspace<C>() + block * inner + begin, n);
  }

  /// Columns [begin, begin + n) of block `block`, counted over outer and row blocks.
  template <class P>
  TW_INLINE void add_block(P p, int64_t block, int64_t begin, int64_t n) const {
    using V = typename P::template Vec<C>;
    const int64_t which = index_quotient(block, row_blocks);
    const int64_t first = (block - which * row_blocks) * rows_per_block, left = x.cols - first;
    const int64_t count = left < rows_per_block ? left : rows_per_block;
    Rows<const T> here;
    here.data = x.row(which * inner).data + begin + first * x.col_stride;
    here.rows = here.lead_sizes[0] = count;
    here.cols = n;
    here.lead_strides[0] = x.col_stride;
    const auto run = [&](const auto& in, const auto& to) {
      tile::for_row<C>(p, to, [&](auto at) {
        V total{};
        for (int64_t r = 0; r < count; r += kRun) {
          V sum{};
          const int64_t end = r + kRun < count ? r + kRun : count;
          TW_UNROLL_LOADS
          for (int64_t i = r; i < end; ++i) sum += V(tile::load(in.row(i), at));
          total += sum;
        }
        tile::store_cached(to, at, total);
      });
    };
    tile::with_rows<C>(p, run, here, partial(p, block, begin, n));
  }
};

}  // namespace tw::kernels
