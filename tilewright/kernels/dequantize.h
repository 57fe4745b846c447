// Blocks of a matrix in 8 bits, each with its scale: out[m, n] = x[m, n] * scale[m / block_m, n /
// block_n]. One program per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class Q>
struct Dequantize {
  View<const Q, 2> x;          // [m, n]
  View<const float, 2> scale;  // [m / block_m, n / block_n], rounded up
  int64_t block_m, block_n;
  View<float, 2> out;  // [m, n]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.size(1) > 0 ? x.size(0) : 0).over_at_most(x.size(1), block_n);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const int64_t m = p.index();
    const View<const Q, 1> row = x[m];
    const View<float, 1> to = out[m];
    for (int64_t first = 0; first < row.size(0); first += block_n) {
      const int64_t rest = row.size(0) - first, count = rest < block_n ? rest : block_n;
      const float factor = scale(m / block_m, first / block_n);
      tile::map_row(
          p, to.part(first, count), [&](auto v) { return v * factor; }, row.part(first, count));
    }
  }
};

}  // namespace tw::kernels
