// Rows of 4-bit numbers, two in a byte, the low half first, in groups with a scale and a zero
// point: out[r, c] = (x[r, c] - zero[r, c / group_size]) * scale[r, c / group_size]. One program
// per row.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct DequantizeInt4 {
  View<const int8_t, 2> x;     // [rows, cols / 2]
  View<const T, 2> scale;      // [rows, cols / group_size]
  View<const int8_t, 2> zero;  // [rows, cols / group_size]
  int64_t group_size;
  View<T, 2> out;  // [rows, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(out.size(1) > 0 ? out.size(0) : 0).over(out.size(1));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    using V = typename P::template Vec<float>;
    const int64_t r = p.index();
    const View<T, 1> to = out[r];
    tile::for_row(p, to, [&](auto at) {
      V v = tile::splat<V>(0.0f);
      TW_UNROLL
      for (int i = 0; i < decltype(at)::kLanes; ++i) {
        if (i >= at.count) continue;
        const int64_t c = at.offset + i, g = c / group_size;
        const int byte = uint8_t(x(r, c / 2));
        const int code = c % 2 == 0 ? byte & 15 : byte >> 4;
        v[i] = float(code - int(zero(r, g))) * float(scale(r, g));
      }
      tile::store(p, to, at, v);
    });
  }
};

}  // namespace tw::kernels
