// Rows in groups of columns, each group in 8 bits and with its scale:
//
//   scale = max(|x|, eps) / largest,  out = x / scale, no further than the largest number
//
// One program per row. Scales and quotients are float32, rounded once.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// The largest finite number of a type, and what is stored of numbers within.
template <class Q>
struct QuantizedAs {
  static constexpr float kLargest = 448;  // f8_e4m3fn
  static constexpr float kLeast = -448;
  template <class V>
  TW_INLINE static V of(V v, bool) {
    return v;
  }
};
template <>
struct QuantizedAs<int8_t> {
  static constexpr float kLargest = 127;
  static constexpr float kLeast = -128;
  template <class V>
  TW_INLINE static V of(V v, bool truncate) {
    const V known = tile::select(v == v, v, V{});
    return truncate ? known : tile::round(known);
  }
};

TW_INLINE float divided(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);  // plain division is not rounded to nearest there
#else
  return a / b;
#endif
}

/// Each lane divided, rounded to nearest.
template <class V>
TW_INLINE V divided_lanes(V v, float by) {
#if defined(__CUDA_ARCH__)
  TW_UNROLL
  for (int i = 0; i < tile::kLanesOf<V>; ++i) v[i] = divided(v[i], by);
  return v;
#else
  return v / tile::splat<V>(by);
#endif
}

/// The least power of two that is no smaller, for positive numbers; infinity and NaN as they are.
TW_INLINE float power_of_two_above(float x) {
  if (!(x < __builtin_inff())) return x;
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  return __builtin_bit_cast(float,
                            (bits & 0x7fffffu) != 0 ? (bits & 0x7f800000u) + 0x800000u : bits);
}

/// One row, in groups.
template <class P, class T, class Q>
TW_INLINE void quantize_row(P p, const View<const T, 1>& row, const View<Q, 1>& to,
                            const View<float, 1>& scale, int64_t group_size, float eps,
                            bool power_of_two, bool truncate) {
  using As = QuantizedAs<Q>;
  for (int64_t g = 0; g < scale.size(0); ++g) {
    const View<const T, 1> group = row.part(g * group_size, group_size);
    const View<Q, 1> codes = to.part(g * group_size, group_size);
    const float most = tile::reduce_row(p, tile::Max{}, group, [&](auto at) {
      const auto v = tile::load(group, at);
      using V = decltype(v + v);
      return tile::select(v < 0.0f, V(0.0f - v), V(v));
    });
    float step = divided(most < eps ? eps : most, As::kLargest);
    if (step == 0) step = 1;
    if (power_of_two) step = power_of_two_above(step);
    scale(g) = step;
    tile::for_row(p, group, [&](auto at) {
      auto v = divided_lanes(tile::load(group, at), step);
      using V = decltype(v);
      v = tile::select(v > As::kLargest, tile::splat<V>(As::kLargest), v);
      v = tile::select(v < As::kLeast, tile::splat<V>(As::kLeast), v);
      tile::store(p, codes, at, As::of(v, truncate));
    });
  }
}

template <class T>
struct QuantizeFp8 {
  Rows<const T> x;  // [*, cols]
  int64_t group_size;
  float eps;
  bool power_of_two;    // scales
  Rows<f8_e4m3fn> out;  // [*, cols]
  Rows<float> scale;    // [*, cols / group_size]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.cols > 0 ? x.rows : 0).over(group_size);
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    quantize_row(p, x.row(p.index()), out.row(p.index()), scale.row(p.index()), group_size, eps,
                 power_of_two, false);
  }
};

template <class T>
struct QuantizeInt8 {
  Rows<const T> x;  // [*, cols]
  int64_t group_size;
  float eps;
  bool power_of_two;  // scales
  bool truncate;      // towards zero, instead of to the nearest
  Rows<int8_t> out;   // [*, cols]
  Rows<float> scale;  // [*, cols / group_size]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.cols > 0 ? x.rows : 0).over(group_size);
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    quantize_row(p, x.row(p.index()), out.row(p.index()), scale.row(p.index()), group_size, eps,
                 power_of_two, truncate);
  }
};

}  // namespace tw::kernels
