// Reductions over a dimension that is not the innermost in memory, on a GPU: elements side by side
// belong to different results. Programs fold blocks of rows for a block of columns each, cut as
// sums are (column_sums.h); then the blocks' states are combined.
#pragma once

#include "tilewright/kernels/column_sums.h"
#include "tilewright/tile/folds.h"

namespace tw::kernels {

/// Where what a thread knows is a state.
template <class S>
struct FoldOfStates {
  using State = S;
  using Running = S;
  TW_INLINE static const State& state(const Running& running, int) { return running; }
};

struct AsTheyAre {
  template <class C>
  TW_INLINE C operator()(C v) const {
    return v;
  }
};
/// By a Reduction alone, of what F makes of the elements.
template <class C, class R, class F = AsTheyAre>
struct FoldBy : FoldOfStates<C> {
  using By = R;
  using Of = F;
  TW_INLINE C start() const { return R::template identity<C>(); }
  template <int kAhead>
  TW_INLINE void add(C& state, const C (&v)[kAhead], const tile::FoldedRows& rows) const {
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a)
      if (a < rows.count) state = R::combine(state, F{}(v[a]));
  }
  TW_INLINE void combine(C& state, const C& other) const { state = R::combine(state, other); }
};
template <class P, class T>
struct ColumnFolds {
  using C = tile::compute_t<T>;
  ColumnSums<P, T> cut;

  TW_INLINE static bool takes(const Rows<const T>& x) {
    if constexpr (P::kOnGpu)
      return ColumnSums<P, T>::pays(x) && x.cols < int64_t{1} << 31;
    else
      return false;
  }

  template <class State>
  TW_INLINE tile::Plan plan() const {
    tile::Plan plan = cut.plan();
    if constexpr (P::kOnGpu) plan.scratch_bytes = tile::kFoldStates<P, C> * int64_t{sizeof(State)};
    if (cut.row_blocks > 1)
      plan.workspace_bytes = cut.x.rows * cut.row_blocks * int64_t{sizeof(State)};
    return plan;
  }

  /// finish(row of the output, state)
  template <class Fold, class Finish>
  TW_INLINE void run(P p, const Fold& fold, Finish&& finish) const {
    using State = typename Fold::State;
    State* const states = p.template workspace<State>();
    const int64_t inner = cut.inner, row_blocks = cut.row_blocks;
    const bool is_last = p.phase() > 0;
    const int64_t across = is_last ? cut.folded_blocks : cut.column_blocks;
    const int64_t width = is_last ? ColumnSums<P, T>::kFolded : cut.columns;
    const int64_t block = index_quotient(p.index(), across);
    const int64_t begin = (p.index() - block * across) * width;
    const int64_t rest = inner - begin, n = rest < width ? rest : width;
    if (is_last)
      return tile::fold_states(
          p, fold, states + block * row_blocks * inner + begin, inner, int(n), row_blocks,
          [&](int c, const State& state) { finish(block * inner + begin + c, state); });
    const int64_t which = index_quotient(block, row_blocks);
    const int64_t first = (block - which * row_blocks) * cut.rows, left = cut.x.cols - first;
    const int64_t stride = cut.x.col_stride;
    const T* const data = cut.x.row(which * inner).data + begin + first * stride;
    const auto put = [&](int c, const State& state) {
      if (row_blocks == 1)
        finish(which * inner + begin + c, state);
      else
        states[block * inner + begin + c] = state;
    };
    const auto fold_all = [&](const auto& row, const auto&) {
      tile::fold_rows<C>(p, fold, row, stride, first, left < cut.rows ? left : cut.rows, put);
    };
    tile::with_rows<C>(p, fold_all, view(data, n), view(data + stride, n));  // as all rows lie
  }
};

/// A kernel that reduces rows, or columns, as the host chose.
template <class P, class T, class Kernel>
struct FoldingKernel {
  Kernel kernel;
  bool by_columns;
  ColumnFolds<P, T> folds;

  TW_INLINE static FoldingKernel of(const Kernel& kernel) {
    const bool by_columns = ColumnFolds<P, T>::takes(kernel.x);
    if (!by_columns) return {kernel, false, {}};
    return {kernel, true, {ColumnSums<P, T>(kernel.x)}};
  }
  TW_INLINE void operator()(P p) const {
    if (by_columns)
      kernel.fold_columns(p, folds);
    else
      kernel(p);
  }
};

}  // namespace tw::kernels
