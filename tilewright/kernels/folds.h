// How a GPU reduces by a fold (tile/folds.h): columns that lie side by side in memory
// (column_folds.h), or rows, which are read once, a program each. Few long rows are cut into parts
// (row_parts.h).
#pragma once

#include "tilewright/kernels/column_folds.h"
#include "tilewright/kernels/row_parts.h"

namespace tw::kernels {

template <class P, class T>
struct Folds {
  static constexpr int kColumns = 2, kGpuWays = 3;  // beside the ways of rows
  using C = tile::compute_t<T>;
  Rows<const T> x;
  bool by_columns;
  RowParts parts;
  ColumnFolds<P, T> columns{};

  TW_INLINE explicit Folds(const Rows<const T>& from)
      : x(from), by_columns(ColumnFolds<P, T>::takes(from)) {
    if (by_columns)
      columns.cut = ColumnSums<P, T>(x);
    else
      parts = RowParts::of_few(x.rows, x.cols);
  }

  template <class State>
  TW_INLINE tile::Plan plan() const {
    return by_columns ? columns.template plan<State>()
                      : parts.plan(x.rows, x.cols, int64_t{sizeof(State)});
  }

  /// finish(row of the output, state)
  template <class OnWay, class Fold, class Finish>
  TW_INLINE void run(OnWay p, const Fold& fold, Finish&& finish) const {
    if constexpr (OnWay::kWay == kColumns)
      columns.run(p, fold, finish);
    else
      run_rows(p, fold, finish);
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
  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(folds.x);
  }
  TW_INLINE int way() const {
    return folds.by_columns ? Folds<P, T>::kColumns : tile::kAlignedRows;
  }
  template <class OnWay>
  TW_INLINE void operator()(OnWay p) const {
    kernel.fold(p, folds);
  }
};

}  // namespace tw::kernels
