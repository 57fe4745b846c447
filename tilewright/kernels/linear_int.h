// A linear layer whose weights are numbers of 4 or 8 bits in groups with a scale and a zero point:
//
//   out[m, n] = sum over k of x[m, k] (weight[n, k] - zero[n, g]) scale[n, g] + bias[n],
//   g = k / group_size
//
// float32 accumulation. Numbers of 4 bits have no sign, lie two in a byte, the low half first, and
// their zero points are 8 where none are given; those of 8 bits have a sign, and 0. A row of out
// has the same bits whatever batch it is computed in. linear_int_cpu.h says how on a CPU; elsewhere
// a program has one feature.
#pragma once

#include "tilewright/tile/tile.h"
#if !defined(__CUDACC__)
#include "tilewright/kernels/linear_int_cpu.h"
#endif

namespace tw::kernels {

template <class T, int kBits>
struct LinearInt {
  static constexpr int kGpuRegisters = 128;

  Rows<const T> x;               // [*, k]
  View<const int8_t, 2> weight;  // [n, k kBits / 8]
  View<const T, 2> scale;        // [n, k / group_size], rounded up
  View<const int8_t, 2> zero;    // the same, or absent
  View<const T, 1> bias;         // [n], or absent
  int64_t group_size;
  Rows<T> out;  // [*, n]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan([[maybe_unused]] const Machine& machine) const {
    if constexpr (P::kOnGpu) {
      return tile::plan_of(out.rows > 0 ? out.cols : 0).over(x.cols);
    } else {
#if !defined(__CUDACC__)
      return out.rows > 0 && out.cols > 0 ? LinearIntCpu<P, T, kBits>(*this, machine).plan()
                                          : tile::plan_of(0);
#endif
    }
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu) {
      feature(p, p.index());
    } else {
#if !defined(__CUDACC__)
      LinearIntCpu<P, T, kBits>(*this, p.machine()).run(p);
#endif
    }
  }

 private:
  /// Weight (n, k) less its zero point, without its scale.
  TW_INLINE int number(int64_t n, int64_t k) const {
    const int64_t g = index_quotient(k, group_size);
    if constexpr (kBits == 8) return int(weight(n, k)) - (zero ? int(zero(n, g)) : 0);
    const int byte = uint8_t(weight(n, k / 2));
    return (k % 2 == 0 ? byte & 15 : byte >> 4) - (zero ? int(zero(n, g)) : 8);
  }

  template <class P>
  TW_INLINE void feature(P p, int64_t n) const {
    using V = typename P::template Vec<float>;
    for (int64_t m = 0; m < out.rows; ++m) {
      const View<const T, 1> row = x.row(m);
      float sum = tile::reduce_row(p, tile::Sum{}, row, [&](auto at) {
        V v = tile::splat<V>(0.0f);
        TW_UNROLL
        for (int i = 0; i < decltype(at)::kLanes; ++i) {
          if (i >= at.count) continue;
          const int64_t k = at.offset + i;
          v[i] =
              float(row(k)) * float(number(n, k)) * float(scale(n, index_quotient(k, group_size)));
        }
        return v;
      });
      if (bias) sum += float(bias(n));
      out(m, n) = T(sum);
    }
  }
};

}  // namespace tw::kernels
