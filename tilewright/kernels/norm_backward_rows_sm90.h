// What the gradients of RMSNorm and of layer normalization do with a row on Hopper: see
// norm_row_sm90.h. Inputs are x and grad.
#pragma once

#include "tilewright/kernels/norm_row_sm90.h"

namespace tw::kernels {

namespace norm_sm90 {

/// The gradient of a span of x. Adds what the span has of the gradient of the weight to the first
/// sum, and of the bias to the second, if there is one.
template <class T, class R, class Factors, int kSums>
TW_PTX Pack<T> finish_gradient(const R& row, const Factors& by, Sums<T, R::kCount> (&sums)[kSums],
                               int span) {
  const auto v = row.x(span), g = row.second(span), w = row.weight(span);
  Pack<T> out;
  TW_UNROLL
  for (int e = 0; e < kLanes<T>; ++e) {
    const float normal = by.normal(v[e]);
    sums[0][span][e] += g[e] * normal;
    if constexpr (kSums > 1) sums[1][span][e] += g[e];
    out[e] = (g[e] * w[e]) * by.rstd - by.correction(normal);
  }
  return out;
}

}  // namespace norm_sm90

/// See rms_norm_backward.h.
template <class T>
struct RmsNormBackwardSm90 {
  using Element = T;
  static constexpr NormKind kKind = NormKind::kRmsBackward;
  static constexpr int kInputs = norm_inputs(kKind), kOuts = 1, kSums = 1;
  static constexpr bool kHasResidual = true;
  static constexpr int kLanes = norm_sm90::kLanes<T>;

  struct alignas(8) Part {
    float squares, products;  // sums of x^2, grad weight x
  };
  struct alignas(8) Factors {
    float rstd, slope;
    TW_PTX float normal(float x) const { return x * rstd; }
    TW_PTX float correction(float normal) const { return normal * slope; }
  };

  /// The other arguments are LayerNormBackwardSm90's.
  template <class R>
  TW_PTX static Part look(const R& row, int, float) {
    float squares = 0, products = 0;
    TW_UNROLL
    for (int s = 0; s < R::kCount; ++s) {
      const auto v = row.x(s), g = row.second(s), w = row.weight(s);
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) {
        squares += v[e] * v[e];
        products += g[e] * w[e] * v[e];
      }
    }
    using norm_sm90::add_lanes;
    return {add_lanes<R::kGroup>(squares), add_lanes<R::kGroup>(products)};
  }

  /// Of the parts of a row. `inverse`: 1 / columns of the row.
  TW_PTX static Factors settle(const Part* parts, const float*, int count, float inverse,
                               float eps) {
    float squares = 0, products = 0;
    norm_sm90::for_lanes(count, [&](int i) {
      const Part part = parts[i];
      squares += part.squares;
      products += part.products;
    });
    return settle({norm_sm90::add_lanes(squares), norm_sm90::add_lanes(products)}, inverse, eps);
  }
  /// Of the only part.
  TW_PTX static Factors settle(const Part& row, float inverse, float eps) {
    const float rstd = rsqrtf(row.squares * inverse + eps);
    return {rstd, row.products * inverse * rstd * rstd};
  }

  template <class R>
  TW_PTX static norm_sm90::Pack<T> finish(const R& row, const Factors& by,
                                          norm_sm90::Sums<T, R::kCount> (&sums)[kSums], int s) {
    return norm_sm90::finish_gradient<T>(row, by, sums, s);
  }
};

/// See layer_norm_backward.h. Each warp has a mean of its own, about which it sums; the row's sums
/// follow from those, without the cancellation of sums about zero (Chan, Golub and LeVeque, 1979).
template <class T>
struct LayerNormBackwardSm90 {
  using Element = T;
  static constexpr NormKind kKind = NormKind::kLayerBackward;
  static constexpr int kInputs = norm_inputs(kKind), kOuts = 1, kSums = 2;
  static constexpr bool kHasResidual = false;
  static constexpr int kLanes = norm_sm90::kLanes<T>;

  struct alignas(16) Part {
    float mean;                      // of x
    float squares, grads, products;  // sums of (x - mean)^2, u = grad weight, u (x - mean)
  };
  struct alignas(16) Factors {
    float mean, rstd, slope, shift;
    TW_PTX float normal(float x) const { return (x - mean) * rstd; }
    TW_PTX float correction(float normal) const { return normal * slope + shift; }
  };

  /// `spans` of the thread's have columns; `inverse`: 1 / columns of the warp.
  template <class R>
  TW_PTX static Part look(const R& row, int spans, float inverse) {
    const float mean = norm_sm90::mean_of<T>(row, inverse);
    float squares = 0, grads = 0, products = 0;
    TW_UNROLL
    for (int s = 0; s < R::kCount; ++s) {
      const float center = s < spans ? mean : 0;  // so that what is beyond adds nothing
      const auto v = row.x(s), g = row.second(s), w = row.weight(s);
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) {
        const float d = v[e] - center, u = g[e] * w[e];
        squares += d * d;
        grads += u;
        products += u * d;
      }
    }
    using norm_sm90::add_lanes;
    return {mean, add_lanes<R::kGroup>(squares), add_lanes<R::kGroup>(grads),
            add_lanes<R::kGroup>(products)};
  }

  /// Of the parts of a row and how many columns each is of.
  TW_PTX static Factors settle(const Part* parts, const float* columns, int count, float inverse,
                               float eps) {
    using namespace norm_sm90;
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
    return settle({mean, add_lanes(squares), add_lanes(grads), add_lanes(products)}, inverse, eps);
  }
  TW_PTX static Factors settle(const Part& row, float inverse, float eps) {
    const float rstd = rsqrtf(row.squares * inverse + eps);
    return {row.mean, rstd, row.products * inverse * rstd * rstd, row.grads * inverse * rstd};
  }

  template <class R>
  TW_PTX static norm_sm90::Pack<T> finish(const R& row, const Factors& by,
                                          norm_sm90::Sums<T, R::kCount> (&sums)[kSums], int s) {
    return norm_sm90::finish_gradient<T>(row, by, sums, s);
  }
};

}  // namespace tw::kernels
