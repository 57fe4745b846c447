// The largest of some elements and how many are equal to it, by a fold (tile/folds.h). NaN if there
// is one, and none that is equal to it.
#pragma once

#include "tilewright/kernels/column_folds.h"

namespace tw::kernels {

template <class C>
struct Maximum {
  C high, count;
};

/// Of what F makes of the elements.
template <class C, class F = AsTheyAre>
struct FoldMaximum : FoldOfStates<Maximum<C>> {
  using State = Maximum<C>;
  TW_INLINE State start() const { return {C(-__builtin_inf()), C(0)}; }
  template <int kAhead>
  TW_INLINE void add(State& state, const C (&v)[kAhead], const tile::FoldedRows& rows) const {
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a)
      if (a < rows.count) combine(state, {F{}(v[a]), C(1)});
  }
  TW_INLINE void combine(State& state, const State& other) const {
    const bool is_more = !(other.high <= state.high), is_nan = other.high != other.high;
    if (state.high != state.high) return;
    const C rest = is_more ? C(0) : state.count;
    const C others = is_nan || other.high < state.high ? C(0) : other.count;
    state = {is_more ? other.high : state.high, rest + others};
  }
};

}  // namespace tw::kernels
