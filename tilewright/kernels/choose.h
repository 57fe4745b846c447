// One of several functors, by its number in a schema's choice.
#pragma once

#include "tilewright/core/macros.h"

namespace tw::kernels {

namespace detail {
template <int kIndex, class First, class... Rest>
struct Nth : Nth<kIndex - 1, Rest...> {};
template <class First, class... Rest>
struct Nth<0, First, Rest...> {
  using type = First;
};
}  // namespace detail

/// Functors in the order of the choice.
template <class First, class... Rest>
struct OneOf {
  static constexpr int kCount = 1 + int(sizeof...(Rest));
  template <int kIndex>
  using At = typename detail::Nth<kIndex, First, Rest...>::type;

  /// Calls f with functor number `index`.
  template <class F>
  TW_INLINE static void choose(int index, F&& f) {
    int i = 0;
    (index == i++ ? f(First{}) : void());
    ((index == i++ ? f(Rest{}) : void()), ...);
  }

  /// Functor number `index`, chosen at each call.
  struct Chosen {
    int index;
    template <class... V>
    TW_INLINE auto operator()(V... v) const {
      auto out = First{}(v...);
      int i = 1;
      ((index == i++ ? void(out = Rest{}(v...)) : void()), ...);
      return out;
    }
  };

  /// As choose(), for functors on vectors. On a GPU f runs once, with one that chooses at each
  /// vector: a branch that all threads take alike is cheap there, and a loop over the elements for
  /// each functor makes kernels of megabytes.
  template <class P, class F>
  TW_INLINE static void choose_within(int index, F&& f) {
    if constexpr (P::kOnGpu)
      f(Chosen{index});
    else
      choose(index, f);
  }
};

}  // namespace tw::kernels
