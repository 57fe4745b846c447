// How a GPU reduces by a fold (tile/folds.h): columns that lie side by side in memory
// (column_folds.h), or rows, which are read once, a program each. Few long rows are cut into parts
// (row_parts.h).
#pragma once

#include "tilewright/kernels/column_folds.h"
#include "tilewright/kernels/column_parts.h"
#include "tilewright/kernels/row_parts.h"

namespace tw::kernels {

template <class P, class T>
struct Folds {
  static constexpr int kColumns = 2, kColumnParts = 3, kGpuWays = 4;  // beside the ways of rows
  using C = tile::compute_t<T>;
  Rows<const T> x;
  int way = tile::kAlignedRows;
  RowParts parts;
  ColumnFolds<P, T> columns{};
  ColumnParts<P, T> column_parts{};

  TW_INLINE explicit Folds(const Rows<const T>& from) : x(from) {
    if (ColumnParts<P, T>::takes(x)) {
      way = kColumnParts;
      column_parts = ColumnParts<P, T>(x);
    } else if (ColumnFolds<P, T>::takes_to_reduce(x)) {
      way = kColumns;
      columns = ColumnFolds<P, T>::to_reduce(x);
    } else {
      parts = RowParts::of_few(x.rows, x.cols);
    }
  }

  template <class State>
  TW_INLINE tile::Plan plan() const {
    if (way == kColumnParts) return column_parts.plan();
    if (way == kColumns) return columns.template plan<State>();
    return parts.plan(x.rows, x.cols, int64_t{sizeof(State)});
  }

  TW_INLINE bool goes_by_columns() const { return way == kColumns || way == kColumnParts; }
  template <class OnWay>
  static constexpr bool kWayIsOfColumns = OnWay::kWay == kColumns || OnWay::kWay == kColumnParts;

  /// finish(row of the output, state)
  template <class OnWay, class Fold, class Finish>
  TW_INLINE void run(OnWay p, const Fold& fold, Finish&& finish) const {
    if constexpr (kWayIsOfColumns<OnWay>)
      run_columns(p, fold, finish);
    else
      run_rows(p, fold, finish);
  }
  /// out: result(state), of the arithmetic type.
  template <class OnWay, class Fold, class Result>
  TW_INLINE void run_into(OnWay p, const Fold& fold, const Rows<T>& out, Result&& result) const {
    if constexpr (OnWay::kWay == kColumnParts) {
      const auto put = [&](int64_t first, auto at, const auto& states) {
        typename P::template Vec<C> results;
        TW_UNROLL
        for (int i = 0; i < ColumnParts<P, T>::kN; ++i) results[i] = result(states[i]);
        put_results(p, out, first, at, results);
      };
      tile::fold_parts<C>(p, fold, column_parts, put, x);
    } else {
      run(p, fold, [&](int64_t i, const auto& state) { out(i, 0) = T(result(state)); });
    }
  }
  template <class OnWay, class Fold, class Finish>
  TW_INLINE void run_columns(OnWay p, const Fold& fold, Finish&& finish) const {
    if constexpr (OnWay::kWay == kColumns) {
      columns.run(p, fold, finish);
    } else {
      const auto put = [&](int64_t first, auto, const auto& states) {
        TW_UNROLL
        for (int i = 0; i < ColumnParts<P, T>::kN; ++i) finish(first + i, states[i]);
      };
      tile::fold_parts<C>(p, fold, column_parts, put, x);
    }
  }

 private:
  template <class OnWay, class Fold, class Finish>
  TW_INLINE void run_rows(OnWay p, const Fold& fold, Finish&& finish) const {
    using State = typename Fold::State;
    State* const states = p.template workspace<State>();
    const int64_t i = p.index();
    if (p.phase() > 0)
      return finish(i, tile::fold_list(p, fold, states + i * parts.count, parts.count));
    const auto fold_all = [&](const auto& row) {
      const State state = tile::fold_row<C>(p, fold, row);
      if (parts.count > 1)
        states[i] = state;
      else
        finish(i, state);
    };
    tile::run_row<C>(p, fold_all, part(i));
  }
  TW_INLINE View<const T, 1> part(int64_t i) const {
    if (parts.count == 1) return x.row(i);
    const RowParts::Part part = parts.part(i, x.cols);
    return x.row(part.row).part(part.begin, part.size);
  }
};

/// A kernel with fold(p, folds), which the host has chosen.
template <class P, class T, class Kernel>
struct FoldingKernel {
  Kernel kernel;
  Folds<P, T> folds;

  TW_INLINE explicit FoldingKernel(const Kernel& of) : kernel(of), folds(of.x) {}
  static constexpr int kGpuWays = Folds<P, T>::kGpuWays;
  static constexpr int kGpuVariants = tile::gpu_variants<Kernel>();
  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(folds.x);
  }
  TW_INLINE int way() const { return folds.way; }
  TW_INLINE int variant() const
    requires(kGpuVariants > 1)
  {
    return kernel.variant();
  }
  template <class OnWay>
  TW_INLINE void operator()(OnWay p) const {
    kernel.fold(p, folds);
  }
};

}  // namespace tw::kernels
