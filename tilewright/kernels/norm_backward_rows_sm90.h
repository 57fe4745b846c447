// What the gradients of RMSNorm and of layer normalization do with a row on Hopper. Each thread has
// four spans of 16 bytes of it. A row is looked at, which gives a part for each warp; the parts of
// all warps settle the row's factors, by which it is finished. In shared memory zeros follow the
// end of x, grad and the weight.
#pragma once

#include "tilewright/kernels/norm_backward_build_sm90.h"
#include "tilewright/tile/cuda/memory.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::kernels {

namespace norm_backward_sm90 {

inline constexpr int kSpans = NormBackwardBuild::kSpans;
template <class T>
inline constexpr int kLanes = NormBackwardBuild::kSpanBytes / int(sizeof(T));
template <class T>
using Span = tile::Raw<T, kLanes<T>>;
/// Elements from a thread's span to the next: a warp has adjacent columns.
template <class T>
inline constexpr int kStep = 32 * kLanes<T>;
/// Sums of the thread's columns over rows.
template <class T>
using Sums = tile::Pack<float, kLanes<T>>[kSpans];

TW_PTX float add_lanes(float value) {
  TW_UNROLL
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
  return value;
}
TW_PTX int lane() {
  return int(threadIdx.x) % 32;
}
/// f(i) for i < n, each by one lane.
template <class F>
TW_PTX void for_lanes(int n, F&& f) {
  TW_NO_UNROLL
  for (int i = lane(); i < n; i += 32) f(i);
}
template <class T>
TW_PTX auto load(const T* from) {
  return Span<T>::load(from).template widen<float>();
}

}  // namespace norm_backward_sm90

/// See rms_norm_backward.h.
template <class T>
struct RmsNormBackwardSm90 {
  using Element = T;
  static constexpr int kSpans = norm_backward_sm90::kSpans, kLanes = norm_backward_sm90::kLanes<T>;
  static constexpr int kSums = 1;
  static constexpr bool kHasResidual = true;

  struct alignas(8) Part {
    float squares, products;  // sums of x^2, grad weight x
  };
  struct Factors {
    float rstd, slope;
  };

  /// From the thread's first columns on. The other arguments are LayerNormBackwardSm90's.
  TW_PTX static Part look(const T* x, const T* grad, const T* weight, int, float) {
    using namespace norm_backward_sm90;
    float squares = 0, products = 0;
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) {
      const auto v = load(x + s * kStep<T>), g = load(grad + s * kStep<T>);
      const auto w = load(weight + s * kStep<T>);
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) {
        squares += v[e] * v[e];
        products += g[e] * w[e] * v[e];
      }
    }
    return {add_lanes(squares), add_lanes(products)};
  }

  /// Of the parts of a row. `inverse`: 1 / columns of the row.
  TW_PTX static Factors settle(const Part* parts, const float*, int count, float inverse,
                               float eps) {
    using namespace norm_backward_sm90;
    float squares = 0, products = 0;
    for_lanes(count, [&](int i) {
      const Part part = parts[i];
      squares += part.squares;
      products += part.products;
    });
    squares = add_lanes(squares), products = add_lanes(products);
    const float rstd = rsqrtf(squares * inverse + eps);
    return {rstd, products * inverse * rstd * rstd};
  }

  TW_PTX static tile::Pack<float, kLanes> finish(const tile::Pack<float, kLanes>& v,
                                                 const tile::Pack<float, kLanes>& g,
                                                 const tile::Pack<float, kLanes>& w,
                                                 const Factors& by,
                                                 norm_backward_sm90::Sums<T> (&sums)[kSums],
                                                 int s) {
    tile::Pack<float, kLanes> out;
    TW_UNROLL
    for (int e = 0; e < kLanes; ++e) {
      const float normal = v[e] * by.rstd;
      sums[0][s][e] += g[e] * normal;
      out[e] = (g[e] * w[e]) * by.rstd - normal * by.slope;
    }
    return out;
  }
};

/// See layer_norm_backward.h. Each warp has a mean of its own, about which it sums; the row's sums
/// follow from those, without the cancellation of sums about zero (Chan, Golub and LeVeque, 1979).
template <class T>
struct LayerNormBackwardSm90 {
  using Element = T;
  static constexpr int kSpans = norm_backward_sm90::kSpans, kLanes = norm_backward_sm90::kLanes<T>;
  static constexpr int kSums = 2;
  static constexpr bool kHasResidual = false;

  struct alignas(16) Part {
    float mean;                      // of x
    float squares, grads, products;  // sums of (x - mean)^2, u = grad weight, u (x - mean)
  };
  struct Factors {
    float mean, rstd, slope, shift;
  };

  /// `spans` of the thread's have columns; `inverse`: 1 / columns of the warp.
  TW_PTX static Part look(const T* x, const T* grad, const T* weight, int spans, float inverse) {
    using namespace norm_backward_sm90;
    float sum = 0;
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) {
      const auto v = load(x + s * kStep<T>);
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) sum += v[e];
    }
    const float mean = add_lanes(sum) * inverse;
    float squares = 0, grads = 0, products = 0;
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) {
      const float center = s < spans ? mean : 0;  // so that what is beyond adds nothing
      const auto v = load(x + s * kStep<T>), g = load(grad + s * kStep<T>);
      const auto w = load(weight + s * kStep<T>);
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) {
        const float d = v[e] - center, u = g[e] * w[e];
        squares += d * d;
        grads += u;
        products += u * d;
      }
    }
    return {mean, add_lanes(squares), add_lanes(grads), add_lanes(products)};
  }

  /// Of the parts of a row and how many columns each is of.
  TW_PTX static Factors settle(const Part* parts, const float* columns, int count, float inverse,
                               float eps) {
    using namespace norm_backward_sm90;
    float sum = 0, squares = 0, grads = 0, products = 0;
    for_lanes(count, [&](int i) { sum += columns[i] * parts[i].mean; });
    const float mean = add_lanes(sum) * inverse;
    for_lanes(count, [&](int i) {
      const Part part = parts[i];
      const float d = part.mean - mean;
      squares += part.squares + columns[i] * d * d;
      grads += part.grads;
      products += part.products + part.grads * d;
    });
    squares = add_lanes(squares), grads = add_lanes(grads), products = add_lanes(products);
    const float rstd = rsqrtf(squares * inverse + eps);
    return {mean, rstd, products * inverse * rstd * rstd, grads * inverse * rstd};
  }

  TW_PTX static tile::Pack<float, kLanes> finish(const tile::Pack<float, kLanes>& v,
                                                 const tile::Pack<float, kLanes>& g,
                                                 const tile::Pack<float, kLanes>& w,
                                                 const Factors& by,
                                                 norm_backward_sm90::Sums<T> (&sums)[kSums],
                                                 int s) {
    tile::Pack<float, kLanes> out;
    TW_UNROLL
    for (int e = 0; e < kLanes; ++e) {
      const float normal = (v[e] - by.mean) * by.rstd;
      sums[0][s][e] += g[e] * normal;
      sums[1][s][e] += g[e];
      out[e] = (g[e] * w[e]) * by.rstd - (normal * by.slope + by.shift);
    }
    return out;
  }
};

}  // namespace tw::kernels
