// Folds of columns, which lie side by side in memory, and of rows: on a GPU alone, where threads
// share them.
//
// A Fold of C has
//
//     State, Running    what is known of some elements of a column; of those that a thread has seen
//     Running start()   of none
//     void add(Running&, const C (&)[k], const FoldedRows&)    k: a power of two
//     State state(Running, int seen)
//     void combine(State&, const State&)
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::tile {
/// Of the scratch of programs that fold: a thread's states are a pitch apart, so that those of
/// threads side by side lie in different banks.
TW_INLINE constexpr int fold_pitch(int threads) {
  return threads + 4;
}
/// States of that scratch.
template <class P, class C>
TW_INLINE constexpr int64_t fold_scratch(int threads) {
  return int64_t{fold_pitch(threads)} * P::template kLanes<C> + threads;
}

/// Rows of adjacent elements, so far apart.
template <class T>
struct RowsApart {
  View<T, 1> first;
  int64_t stride;
};
/// The first `count` of some elements, of rows row, row + step ...; `seen` were before. Of a row's
/// elements nothing tells which they are.
struct FoldedRows {
  int count, row, step, seen;
};

/// Rows of a thread's columns that fold_and_map_parts keeps: half of its registers, of 64.
template <class P, class C, class T>
TW_INLINE constexpr int rows_kept(int operands) {
  return 128 / (P::template kLanes<C> * int(sizeof(T))) / operands;
}
}  // namespace tw::tile

#if defined(__CUDACC__)
#include "tilewright/tile/cuda/fold_parts.h"
#else
namespace tw::tile {
template <class C, class Fold, class P, class Put, class F, class... T>
void fold_rows(P p, const Fold& fold, int64_t first, int64_t count, Put&& put, F&& term,
               const RowsApart<T>&... operands);
template <class Fold, class P, class Put>
void fold_states(P p, const Fold& fold, const typename Fold::State* states, int64_t stride, int n,
                 int64_t count, Put&& put);
template <class C, class Fold, class P, class Parts, class Put, class T>
void fold_parts(P p, const Fold& fold, const Parts& parts, Put&& put, const Rows<T>& x);
template <class C, class Fold, class P, class Parts, class Term, class Known, class F, class To,
          class... From>
void fold_and_map_parts(P p, const Fold& fold, const Parts& parts, Term&& term, Known&& known,
                        F&& f, const Rows<To>& to, const Rows<From>&... from);
template <class C, class P, class Known, class F, class To, class... From>
void map_columns(P p, Known&& known, int64_t count, F&& f, const RowsApart<To>& to,
                 const RowsApart<From>&... from);
template <class C, class Fold, class P, class Row>
typename Fold::State fold_row(P p, const Fold& fold, const Row& row);
template <class Fold, class P>
typename Fold::State fold_list(P p, const Fold& fold, const typename Fold::State* states,
                               int64_t count);
}  // namespace tw::tile
#endif
