// The index of the largest value of each row; the first one of equals. NaN is larger than anything.
// One program per row, which is read once, unless there are columns to reduce: on a CPU by blocks
// of them (column_block.h), on a GPU by folds (column_folds.h).
#pragma once

#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/folds.h"
#include "tilewright/tile/largest.h"

namespace tw::kernels {

/// Columns' largest elements.
template <class C>
struct LargestOfColumn {
  C value;
  bits_of<C> row;  // of the first; of -inf alone there is none
};
template <class C>
struct FoldLargest : FoldOfStates<LargestOfColumn<C>> {
  using State = LargestOfColumn<C>;
  TW_INLINE State start() const { return {tile::Max::identity<C>(), kNone}; }
  template <int kAhead>
  TW_INLINE void add(State& state, const C (&v)[kAhead], const tile::FoldedRows& rows) const {
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      if (a >= rows.count || v[a] <= state.value || state.value != state.value) continue;
      state = {v[a], Index(rows.row + a * rows.step)};
    }
  }
  TW_INLINE void combine(State& state, const State& other) const {
    const bool is_nan = state.value != state.value, other_is = other.value != other.value;
    const bool is_equal = is_nan ? other_is : state.value == other.value;
    const bool is_larger = is_nan ? false : other_is || other.value > state.value;
    if (is_larger || (is_equal && other.row < state.row)) state = other;
  }
  TW_INLINE static int64_t row_of(const State& state) {
    return state.row == kNone ? 0 : int64_t(state.row);
  }

 private:
  using Index = bits_of<C>;
  static constexpr Index kNone = ~Index{0};
};

template <class T>
struct Argmax {
  using C = tile::compute_t<T>;

  Rows<const T> x;    // [*, cols], cols > 0
  int64_t dim;        // the caller moved this dimension into the last place
  Rows<int64_t> out;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu) {
      const Folds<P, T> folds(x);
      if (folds.goes_by_columns()) return folds.template plan<LargestOfColumn<C>>();
    }
    if (has_blocks<P>()) return ColumnBlock<P, T>::plan(x);
    constexpr int64_t kFew = 512;  // rows that leave multiprocessors idle: all threads for each
    const int64_t most = x.rows < kFew ? x.cols : tile::columns_read_once(x.rows);
    return tile::plan_of(x.rows).over_row(tile::lesser(x.cols, most));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    if (has_blocks<P>()) {
      const ColumnBlock<P, T> block(p, x);
      alignas(64) typename ColumnBlock<P, T>::Totals largest, rows;
      block.find_largest(p, largest, rows);
      return block.put(out, rows);
    }
#endif
    const auto run = [&](const auto& row) {
      tile::find_largest<C>(p, row, [&](int64_t column) { out(p.index(), 0) = column; });
    };
    tile::run_row<C>(p, run, x.row(p.index()));
  }

  /// On a GPU the host chooses how.
  template <tile::Program P>
  TW_DEVICE FoldingKernel<P, T, Argmax> prepared() const
    requires(P::kOnGpu)
  {
    return FoldingKernel<P, T, Argmax>(*this);
  }
  template <class P, class F>
  TW_INLINE void fold(P p, const F& folds) const {
    using Fold = FoldLargest<C>;
    if constexpr (F::template kWayIsOfColumns<P>)
      folds.run_columns(p, Fold{},
                        [&](int64_t i, const auto& state) { out(i, 0) = Fold::row_of(state); });
    else
      (*this)(p);
  }

 private:
  template <class P>
  TW_INLINE bool has_blocks() const {
    using Block = ColumnBlock<P, T>;
    return Block::takes(x) && x.cols <= Block::kMostRows;
  }
};

}  // namespace tw::kernels
