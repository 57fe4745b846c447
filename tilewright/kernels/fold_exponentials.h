// Sums of exponentials in one pass, by a fold (tile/folds.h): what is known of some elements is
// their largest one and the sum of exponentials of differences from it (Milakov & Gimelshein,
// arXiv:1805.02867). Several elements at a time, so that sums are scaled anew once for all of them.
#pragma once

#include "tilewright/kernels/column_folds.h"
#include "tilewright/tile/math.h"

namespace tw::kernels {

template <class C>
struct Exponentials {
  C high, total;

  /// What exponents are counted from: -inf - -inf is NaN, but what is -inf weighs nothing.
  TW_INLINE static C base_of(C high) { return high == C(-__builtin_inf()) ? C(0) : high; }
};

template <class C>
struct FoldExponentials : FoldOfStates<Exponentials<C>> {
  using State = Exponentials<C>;
  TW_INLINE State start() const { return {tile::Max::identity<C>(), C(0)}; }
  template <int kAhead>
  TW_INLINE void add(State& state, const C (&v)[kAhead], const tile::FoldedRows& rows) const {
    C some[kAhead];
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) some[a] = a < rows.count ? v[a] : tile::Max::identity<C>();
    const C high = tile::Max::combine(state.high, fold_some<tile::Max, kAhead>(some));
    const C base = State::base_of(high);
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a)
      some[a] = a < rows.count ? tile::exp_nonpositive(v[a] - base) : C(0);
    state.total = state.total * tile::exp_nonpositive(state.high - base);
    state.total += fold_some<tile::Sum, kAhead>(some);
    state.high = high;
  }
  TW_INLINE void combine(State& state, const State& other) const {
    const C high = tile::Max::combine(state.high, other.high), base = State::base_of(high);
    state.total = state.total * tile::exp_nonpositive(state.high - base) +
                  other.total * tile::exp_nonpositive(other.high - base);
    state.high = high;
  }
};

}  // namespace tw::kernels
