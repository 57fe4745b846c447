// Rows in groups of columns, each group in 8 bits and with its scale:
//
//   scale = max(|x|, eps) / largest,  out = x / scale, no further than the largest number
//
// On a CPU a program has a row, on a GPU a group. Scales and quotients are float32, rounded once.
#pragma once

#include "tilewright/tile/quantized.h"

namespace tw::kernels {

using tile::QuantizedAs;

/// The least power of two that is no smaller, for positive numbers; infinity and NaN as they are.
TW_INLINE float power_of_two_above(float x) {
  if (!(x < __builtin_inff())) return x;
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  return __builtin_bit_cast(float,
                            (bits & 0x7fffffu) != 0 ? (bits & 0x7f800000u) + 0x800000u : bits);
}

/// Spans of float32 that are kept take half of 64.
template <class T>
inline constexpr int kQuantizeRegisters = sizeof(T) > 2 ? 128 : 64;

struct Quantizing {
  int64_t group_size;
  float eps;
  bool power_of_two, truncate;
};

template <class P, class T>
TW_INLINE tile::Plan quantize_plan(const Rows<const T>& x, const Rows<float>& scale,
                                   int64_t group_size) {
  if constexpr (P::kOnGpu)
    return tile::plan_of(x.rows * scale.cols, tile::kept_bytes<P, float, T>(group_size))
        .over_row(group_size, tile::kKeptColumns<P, float, T>);
  else
    return tile::plan_of(x.cols > 0 ? x.rows : 0);
}

/// One group; its scale.
template <class Q, class P, class From, class To>
TW_INLINE float quantize_group(P p, const From& group, const To& codes, const Quantizing& how) {
  const float most = tile::largest_magnitude(p, group);
  float step = tile::divided(most < how.eps ? how.eps : most, QuantizedAs<Q>::kLargest);
  if (step == 0) step = 1;
  if (how.power_of_two) step = power_of_two_above(step);
  const tile::Divisor by{step};
  tile::for_row(p, group, [&](auto at) {
    tile::store_quotients<Q>(p, codes, at, tile::load(group, at), by, how.truncate);
  });
  return step;
}

/// What a program has.
template <class P, class T, class Q>
TW_INLINE void quantize(P p, const Rows<const T>& x, const Rows<Q>& out, const Rows<float>& scale,
                        const Quantizing& how) {
  const int64_t size = how.group_size;
  if constexpr (P::kOnGpu) {
    const int64_t row = index_quotient(p.index(), scale.cols), g = p.index() - row * scale.cols;
    const auto run = [&](const auto& from, const auto& to) {
      const float step = quantize_group<Q>(p, tile::keep_row(p, from), to, how);
      if (p.thread() == 0) scale(row, g) = step;
    };
    tile::with_rows(p, run, x.row(row).part(g * size, size), out.row(row).part(g * size, size));
  } else {
    const View<const T, 1> from = x.row(p.index());
    const View<Q, 1> to = out.row(p.index());
    const View<float, 1> steps = scale.row(p.index());
    for (int64_t g = 0; g < steps.size(0); ++g)
      steps(g) = quantize_group<Q>(p, from.part(g * size, size), to.part(g * size, size), how);
  }
}

template <class T>
struct QuantizeFp8 {
  static constexpr int kGpuRegisters = kQuantizeRegisters<T>;
  Rows<const T> x;  // [*, cols]
  int64_t group_size;
  float eps;
  bool power_of_two;    // scales
  Rows<f8_e4m3fn> out;  // [*, cols]
  Rows<float> scale;    // [*, cols / group_size]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return quantize_plan<P>(x, scale, group_size);
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    quantize(p, x, out, scale, {group_size, eps, power_of_two, false});
  }
};

template <class T>
struct QuantizeInt8 {
  static constexpr int kGpuRegisters = kQuantizeRegisters<T>;
  Rows<const T> x;  // [*, cols]
  int64_t group_size;
  float eps;
  bool power_of_two;  // scales
  bool truncate;      // towards zero, instead of to the nearest
  Rows<int8_t> out;   // [*, cols]
  Rows<float> scale;  // [*, cols / group_size]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return quantize_plan<P>(x, scale, group_size);
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    quantize(p, x, out, scale, {group_size, eps, power_of_two, truncate});
  }
};

}  // namespace tw::kernels
