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
  template <class V>
  TW_INLINE V operator()(V v) const {
    return v;
  }
};
/// The reduction of some elements, a power of two, pairwise: as exact as that, and no chain of
/// waits.
template <class R, int kCount, class C>
TW_INLINE C fold_some(const C* v) {
  if constexpr (kCount == 1)
    return *v;
  else
    return R::combine(fold_some<R, kCount / 2>(v), fold_some<R, kCount / 2>(v + kCount / 2));
}
/// By a Reduction alone, of what F makes of the elements.
template <class C, class R, class F = AsTheyAre>
struct FoldBy : FoldOfStates<C> {
  using By = R;
  using Of = F;
  TW_INLINE C start() const { return R::template identity<C>(); }
  template <int kAhead>
  TW_INLINE void add(C& state, const C (&v)[kAhead], const tile::FoldedRows& rows) const {
    C some[kAhead];
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a)
      some[a] = a < rows.count ? F{}(v[a]) : R::template identity<C>();
    state = R::combine(state, fold_some<R, kAhead>(some));
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

  /// Where results are of whole columns, small parts pay, too: a warp's thread has one.
  TW_INLINE static bool takes_to_reduce(const Rows<const T>& x) {
    return takes(x) || ColumnSums<P, T>::pays_by_warps(x);
  }
  TW_INLINE static ColumnFolds to_reduce(const Rows<const T>& x) {
    return {ColumnSums<P, T>(x, 1)};
  }

  template <class State>
  TW_INLINE tile::Plan plan() const {
    tile::Plan plan = cut.plan();
    if constexpr (P::kOnGpu)
      plan.scratch_bytes = tile::fold_scratch<P, C>(cut.threads) * int64_t{sizeof(State)};
    plan.workspace_bytes = cut.row_blocks > 1 ? blocks_bytes<State>() : 0;
    return plan;
  }
  /// Of what only maps.
  TW_INLINE tile::Plan plan_of_maps() const {
    const tile::Plan plan = tile::plan_of(cut.outer * cut.column_blocks * cut.row_blocks);
    if constexpr (P::kOnGpu)
      return plan.over(P::kSumColumns);
    else
      return plan;
  }
  /// Of the blocks' states.
  template <class State>
  TW_INLINE int64_t blocks_bytes() const {
    return cut.x.rows * cut.row_blocks * int64_t{sizeof(State)};
  }

  /// Rows and columns of a program: of those that share dimensions but the reduced and the last.
  struct Block {
    int64_t which, first, rows, begin, columns;

    template <class U>
    TW_INLINE tile::RowsApart<U> of(const Rows<U>& all, int64_t inner) const {
      const int64_t stride = all.col_stride;
      return {view(all.row(which * inner).data + begin + first * stride, columns), stride};
    }
  };
  TW_INLINE Block block(int64_t index) const {
    const int64_t number = index_quotient(index, cut.column_blocks);
    const int64_t which = index_quotient(number, cut.row_blocks);
    const int64_t first = (number - which * cut.row_blocks) * cut.rows;
    const int64_t begin = (index - number * cut.column_blocks) * cut.columns;
    return {which, first, tile::lesser(cut.x.cols - first, cut.rows), begin,
            tile::lesser(cut.inner - begin, cut.columns)};
  }

  /// finish(row of the output, state)
  template <class Fold, class Finish>
  TW_INLINE void run(P p, const Fold& fold, Finish&& finish) const {
    if (p.phase() > 0)
      combine(p, fold, finish);
    else
      fold_block(p, fold, finish, AsTheyAre{}, cut.x);
  }

  /// The first phase: of term(elements of the operands).
  template <class Fold, class Finish, class F, class... In>
  TW_INLINE void fold_block(P p, const Fold& fold, Finish&& finish, F&& term,
                            const Rows<In>&... operands) const {
    using State = typename Fold::State;
    const Block at = block(p.index());
    State* const states =
        p.template workspace<State>() +
        (at.which * cut.row_blocks + index_quotient(at.first, cut.rows)) * cut.inner;
    const auto put = [&](int c, const State& state) {
      if (cut.row_blocks == 1)
        finish(at.which * cut.inner + at.begin + c, state);
      else
        states[at.begin + c] = state;
    };
    tile::fold_rows<C>(p, fold, at.first, at.rows, put, term, at.of(operands, cut.inner)...);
  }
  /// The second one, where there are several blocks of rows.
  template <class Fold, class Finish>
  TW_INLINE void combine(P p, const Fold& fold, Finish&& finish) const {
    using State = typename Fold::State;
    constexpr int64_t kWidth = ColumnSums<P, T>::kFolded;
    const int64_t inner = cut.inner, which = index_quotient(p.index(), cut.folded_blocks);
    const int64_t begin = (p.index() - which * cut.folded_blocks) * kWidth;
    tile::fold_states(p, fold,
                      p.template workspace<State>() + which * cut.row_blocks * inner + begin, inner,
                      int(tile::lesser(inner - begin, kWidth)), cut.row_blocks,
                      [&](int c, const State& state) { finish(which * inner + begin + c, state); });
  }
};

}  // namespace tw::kernels
