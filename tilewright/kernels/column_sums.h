// Sums over a dimension that is not the innermost in memory: elements side by side belong to
// different sums. Programs add up blocks of rows for a block of columns each; then the blocks are
// added up. The cut depends on the shape alone, so bits do not depend on the threads.
#pragma once

#include "tilewright/tile/sums.h"

namespace tw::kernels {

namespace detail {
template <class P, class T, class V>
TW_SHARED void put_each(P, const Rows<T>& out, int64_t first, V values, int count) {
  TW_UNROLL
  for (int i = 0; i < tile::kLanesOf<V>; ++i)
    if (i < count) out(first + i, 0) = T(values[i]);
}
}  // namespace detail

/// out[first + column] = the value of each column of a span.
template <class P, class T, class At, class V>
TW_INLINE void put_results(P p, const Rows<T>& out, int64_t first, const At& at, const V& values) {
  if (out.lead > 1) return detail::put_each(p, out, first + at.offset, values, at.count);
  // The rule; spares searches for rows.
  const View<T, 1> to{
      out.data + first * out.lead_strides[0], {out.rows - first}, {out.lead_strides[0]}};
  tile::store_cached(to, at, values);
}

template <class P, class T>
struct ColumnSums {
  using C = tile::compute_t<T>;
  /// Columns of a program that adds blocks up.
  static constexpr int64_t kFolded = P::kOnGpu ? 64 : 512;

  Rows<const T> x;  // [outer, inner], each a sum over cols; inner is adjacent in memory
  int64_t inner = 0, outer = 0, columns = 0, rows = 0;  // the last two: of a block
  int64_t column_blocks = 0, row_blocks = 0, folded_blocks = 0;
  int threads = 0;  // of a program, on a GPU

  /// Whether `x` is of that kind.
  TW_INLINE static bool takes(const Rows<const T>& x) {
    const int last = x.lead - 1;
    return x.lead_strides[last] == 1 && x.col_stride != 1 && x.lead_sizes[last] >= 8 &&
           x.cols > 1 && x.rows > 0;
  }
  /// Whether it is, and of more than small parts.
  TW_INLINE static bool pays(const Rows<const T>& x) {
    return takes(x) && !(P::kOnGpu && has_small_parts(x));
  }
  /// Of small parts a GPU has a warp for each; of the smallest, a program for each row.
  TW_INLINE static bool pays_by_warps(const Rows<const T>& x) {
    constexpr int64_t kLeast = 512;
    return P::kOnGpu && takes(x) && has_small_parts(x) &&
           x.lead_sizes[x.lead - 1] * x.cols >= kLeast;
  }

  ColumnSums() = default;
  /// lanes: of a warp's thread, of which each adds up as many columns.
  TW_INLINE explicit ColumnSums(const Rows<const T>& from, int lanes = P::template kLanes<C>)
      : x(from) {
    inner = x.lead_sizes[x.lead - 1];
    outer = x.rows / inner;
    if constexpr (P::kOnGpu) {
      threads = has_small_parts(x) ? 32 : P::kSumThreads;
      if (threads == 32)
        cut_for_warps(lanes);
      else
        cut_for_threads();
    } else {
      cut();
    }
    folded_blocks = (inner + kFolded - 1) / kFolded;
  }

  TW_INLINE tile::Plan plan() const {
    tile::Plan plan = tile::plan_of(outer * column_blocks * row_blocks);
    if constexpr (P::kOnGpu) {
      plan = plan.over_threads(threads);
      plan.scratch_bytes = P::template kSumBytes<C> / P::kSumThreads * threads;
    }
    if (row_blocks == 1) return plan;
    plan.phases = 2;
    plan.grid[1] = outer * folded_blocks;
    plan.workspace_bytes = x.rows * row_blocks * int64_t{sizeof(C)};
    return plan;
  }

  /// finish(row, at, values): the sums of out's rows from `row` + at's columns on.
  template <class Finish>
  TW_INLINE void run(P p, Finish&& finish) const {
    const bool is_last = p.phase() > 0;
    const int64_t width = is_last ? kFolded : columns;
    const int64_t block = index_quotient(p.index(), is_last ? folded_blocks : column_blocks);
    const int64_t begin = (p.index() - block * (is_last ? folded_blocks : column_blocks)) * width;
    const int64_t rest = inner - begin, n = rest < width ? rest : width;
    if (is_last) {
      const Rows<const C> parts = rows_at<C>(partial(p, block * row_blocks) + begin, inner, n);
      return add_up(p, parts, row_blocks,
                    [&](auto at, auto total) { finish(block * inner + begin, at, total); });
    }
    const int64_t which = index_quotient(block, row_blocks);
    const int64_t first = (block - which * row_blocks) * rows, left = x.cols - first;
    const T* const data = x.row(which * inner).data + begin + first * x.col_stride;
    add_up(p, rows_at<T>(data, x.col_stride, n), left < rows ? left : rows,
           [&](auto at, auto total) {
             if (row_blocks == 1)
               finish(block * inner + begin, at, total);
             else
               tile::store_cached(view(partial(p, block) + begin, n), at, total);
           });
  }

 private:
  TW_INLINE static bool has_small_parts(const Rows<const T>& x) {
    const int64_t part = x.lead_sizes[x.lead - 1] * x.cols;
    constexpr int64_t kSmall = 4096, kManyParts = 256;
    return part < kSmall && x.rows * x.cols >= part * kManyParts;
  }
  TW_INLINE void cut() {
    constexpr int64_t kPrograms = 2048, kMinRows = 16;
    columns = kFolded;
    column_blocks = (inner + columns - 1) / columns;
    const int64_t most = (x.cols + kMinRows - 1) / kMinRows;
    const int64_t wanted = kPrograms / (outer * column_blocks);
    const int64_t count = wanted < 1 ? 1 : wanted < most ? wanted : most;
    cut_rows((x.cols + count - 1) / count);
  }
  /// The threads share a block's rows, up to kRows for each: many, so that blocks write little, but
  /// for smaller tensors only what one has on its way at a time, so that all is on its way at once.
  TW_INLINE void cut_for_threads() {
    constexpr int64_t kWide = 256, kPrograms = 1024, kMost = 8192;
    constexpr int64_t kRows = 64, kFewRows = 16, kMinRows = 8;
    const auto cut_by = [&](int64_t width, int64_t thread_rows) {
      columns = width;
      while (columns / 2 >= inner && columns > P::template kLanes<C>) columns /= 2;
      column_blocks = (inner + columns - 1) / columns;
      cut_rows(thread_rows * P::template kSumLanes<C> / columns);
      return outer * column_blocks * row_blocks;
    };
    int64_t thread_rows = kRows, count = cut_by(kWide, thread_rows);
    while (count < kPrograms && thread_rows > kFewRows) count = cut_by(kWide, thread_rows /= 2);
    if (count < kPrograms) count = cut_by(kFolded, thread_rows);
    while (count < kPrograms && thread_rows > kMinRows) count = cut_by(kFolded, thread_rows /= 2);
    if (count > kMost && row_blocks > 1) {
      const int64_t most = kMost / (outer * column_blocks), least = most < 1 ? 1 : most;
      cut_rows((x.cols + least - 1) / least);
    }
  }
  TW_INLINE void cut_for_warps(int lanes) {
    columns = inner < 32 * lanes ? inner : 32 * lanes;
    column_blocks = (inner + columns - 1) / columns;
    cut_rows(x.cols);
  }
  TW_INLINE void cut_rows(int64_t of_a_block) {
    rows = of_a_block;
    row_blocks = (x.cols + rows - 1) / rows;
  }

  /// A block's row of sums.
  TW_INLINE C* partial(P p, int64_t block) const {
    return p.template workspace<C>() + block * inner;
  }
  template <class U>
  TW_INLINE static Rows<const U> rows_at(const U* data, int64_t stride, int64_t n) {
    Rows<const U> out;
    out.data = data;
    out.cols = n;
    out.lead_strides[0] = stride;
    return out;
  }
  template <class U, class Put>
  TW_INLINE static void add_up(P p, const Rows<const U>& from, int64_t count, Put&& put) {
    const auto run = [&](const auto& in) { tile::add_rows<C>(p, in, count, put); };
    tile::with_rows<C>(p, run, from);
  }
};

}  // namespace tw::kernels
