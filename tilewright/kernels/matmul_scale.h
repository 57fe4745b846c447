// What matmul does to a sum, wherever it runs: alpha times it, plus beta times an addend where
// there is one. Freestanding.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

struct MatmulScale {
  float alpha = 1, beta = 1;

  template <class V>
  TW_INLINE V operator()(V sum) const {
    return sum * alpha;
  }
  template <class V>
  TW_INLINE V operator()(V sum, V addend) const {
    return tile::fma(addend, tile::splat<V>(beta), sum * alpha);
  }
};

}  // namespace tw::kernels
