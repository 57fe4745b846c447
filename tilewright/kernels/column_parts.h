// Reductions over a dimension that is not the innermost in memory, on a GPU, where there are
// columns enough for all threads: each has some side by side, and all of their rows, or, of fewer
// columns, every so many; then a warp's lanes combine what they know. No block waits for another
// thread.
#pragma once

#include "tilewright/kernels/column_sums.h"
#include "tilewright/tile/folds.h"

namespace tw::kernels {

template <class P, class T>
struct ColumnParts {
  using Element = const T;
  using C = tile::compute_t<T>;
  static constexpr int kN = P::template kLanes<C>;  // columns of a thread

  Element* data = nullptr;
  int64_t part_stride = 0, row_stride = 0, inner = 0;
  int64_t spans = 0;  // in all, of kN columns
  int across = 0;     // of a part
  int rows = 0, shares = 1;

  /// Columns that are whole spans, of few rows, in parts equally far apart.
  TW_INLINE static bool takes(const Rows<const T>& x) {
    if constexpr (!P::kOnGpu) return false;
    constexpr int64_t kMostRows = 64, kLeastThreads = 1 << 14, kMost = 1 << 30;
    if (!ColumnSums<P, T>::takes(x) || x.lead > 2 || x.cols >= kMost || x.rows == 0) return false;
    const int64_t inner = x.lead_sizes[x.lead - 1], apart = x.lead > 1 ? x.lead_strides[0] : 0;
    constexpr int64_t kWord = kN * int64_t{sizeof(T)} < 16 ? kN * int64_t{sizeof(T)} : 16;
    const int64_t bytes = (apart | x.col_stride) * int64_t{sizeof(T)};
    if (inner % kN != 0 || inner >= kMost || bytes % kWord != 0 ||
        reinterpret_cast<uint64_t>(x.data) % uint64_t{kWord} != 0)
      return false;
    const int64_t shares = shares_of(x.rows / kN, x.cols);
    return x.cols <= kMostRows * shares && x.rows / kN * shares >= kLeastThreads;
  }

  ColumnParts() = default;
  TW_INLINE explicit ColumnParts(const Rows<const T>& x)
      : data(x.data),
        part_stride(x.lead > 1 ? x.lead_strides[0] : 0),
        row_stride(x.col_stride),
        inner(x.lead_sizes[x.lead - 1]),
        spans(x.rows / kN),
        across(int(inner / kN)),
        rows(int(x.cols)),
        shares(int(shares_of(spans, x.cols))) {}

  TW_INLINE tile::Plan plan() const {
    return tile::plan_of((spans * shares + kThreads - 1) / kThreads).over_threads(kThreads);
  }
  /// put(row of the output, at, states): of a span's columns.
  template <class Fold, class Put>
  TW_INLINE void run(P p, const Fold& fold, Put&& put) const {
    tile::fold_parts<C>(p, fold, *this, put);
  }

 private:
  static constexpr int kThreads = 256;
  /// Of a column's rows: more threads while a GPU has room for them, and work.
  TW_INLINE static int64_t shares_of(int64_t spans, int64_t rows) {
    constexpr int64_t kThreadsAtOnce = 1 << 16, kLeastRows = 4;
    int64_t shares = 1;
    while (shares < 32 && spans * shares < kThreadsAtOnce && rows >= 2 * kLeastRows * shares)
      shares *= 2;
    return shares;
  }
};

}  // namespace tw::kernels
