// The product of those of some elements that are not zero, and how many are, by a fold
// (tile/folds.h).
#pragma once

#include "tilewright/kernels/column_folds.h"

namespace tw::kernels {

template <class C>
struct NonzeroProduct {
  C product, zeros;
};

template <class C>
struct FoldNonzeroProduct : FoldOfStates<NonzeroProduct<C>> {
  using State = NonzeroProduct<C>;
  TW_INLINE State start() const { return {C(1), C(0)}; }
  template <int kAhead>
  TW_INLINE void add(State& state, const C (&v)[kAhead], const tile::FoldedRows& rows) const {
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      if (a >= rows.count) continue;
      const bool is_zero = v[a] == C(0);
      combine(state, {is_zero ? C(1) : v[a], is_zero ? C(1) : C(0)});
    }
  }
  TW_INLINE void combine(State& state, const State& other) const {
    state = {state.product * other.product, state.zeros + other.zeros};
  }
};

}  // namespace tw::kernels
