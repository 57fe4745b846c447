// One of several functors, by its number in a schema's choice.
#pragma once

#include "tilewright/core/macros.h"

namespace tw::kernels {

/// Functors in the order of the choice.
template <class... Fs>
struct OneOf {
  static constexpr int kCount = int(sizeof...(Fs));

  /// Calls f with functor number `index`.
  template <class F>
  TW_INLINE static void choose(int index, F&& f) {
    int i = 0;
    ((index == i++ ? f(Fs{}) : void()), ...);
  }
};

}  // namespace tw::kernels
