// Rotary position embedding. Su et al., arXiv:2104.09864, eq. 34.
//
//   (a, b) -> (a cos - b sin, b cos + a sin)      for each pair (a, b) of the first 2 R dimensions
//
// Pairs are (x[i], x[i + R]) in the NeoX form and (x[2i], x[2i + 1]) in the interleaved one: two
// strided rows either way, so that one loop serves both. Dimensions from 2 R on pass through.
// One program per token; cos and sin are read once for all its heads.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct Rope {
  View<const T, 4> x;                // [batch, seq, heads, dim]
  View<const float, 2> cos;          // [positions, pairs], pairs <= dim / 2
  View<const float, 2> sin;          // [positions, pairs]
  View<const int32_t, 2> positions;  // [batch, seq], rows of cos and sin; absent: 0, 1, 2, ...
  bool interleaved;
  View<T, 4> out;  // [batch, seq, heads, dim], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.size(0) * x.size(1)).over(x.size(3));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const int64_t b = p.index() / x.size(1), s = p.index() % x.size(1);
    const int64_t position = positions ? positions(b, s) : s;
    const auto cos_row = cos[position], sin_row = sin[position];
    const int64_t pairs = cos_row.size(0);
    for (int64_t h = 0; h < x.size(2); ++h) {
      const auto from = x[b][s][h];
      const auto to = out[b][s][h];
      tile::with_rows(
          p,
          [&](const auto& from_a, const auto& from_b, const auto& cosine, const auto& sine,
              const auto& to_a, const auto& to_b) {
            tile::for_row(p, from_a, [&](auto at) {
              const auto a = tile::load(from_a, at), o = tile::load(from_b, at);
              const auto c = tile::load(cosine, at), n = tile::load(sine, at);
              tile::store(p, to_a, at, a * c - o * n);
              tile::store(p, to_b, at, o * c + a * n);
            });
          },
          half(from, 0, pairs), half(from, 1, pairs), cos_row, sin_row, half(to, 0, pairs),
          half(to, 1, pairs));
      if (2 * pairs < from.size(0))
        tile::map_row(p, rest(to, 2 * pairs), [](auto v) { return v; }, rest(from, 2 * pairs));
    }
  }

 private:
  template <class U>
  TW_INLINE View<U, 1> half(const View<U, 1>& row, int which, int64_t pairs) const {
    const int64_t step = row.stride(0);
    return {row.data + which * step * (interleaved ? 1 : pairs),
            {pairs},
            {interleaved ? 2 * step : step}};
  }
  template <class U>
  TW_INLINE static View<U, 1> rest(const View<U, 1>& row, int64_t begin) {
    return {row.data + begin * row.stride(0), {row.size(0) - begin}, {row.stride(0)}};
  }
};

}  // namespace tw::kernels
