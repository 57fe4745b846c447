// What softmax, its logarithm and their gradients do with a row on Hopper: see norm_row_sm90.h and,
// for the arithmetic, softmax.h and softmax_backward.h.
#pragma once

#include "tilewright/kernels/norm_row_sm90.h"
#include "tilewright/tile/cuda/exponential.h"

namespace tw::kernels {

namespace norm_sm90 {
/// e^x for x <= 0.
TW_PTX float weight_of(float below) {
  return tile::cuda::exp2(below * 0x1.715476p+0f);
}
/// What exponents are counted from: -inf - -inf is NaN, but what is -inf weighs nothing.
TW_PTX float base_of(float high) {
  return high == -__builtin_inff() ? 0 : high;
}
}  // namespace norm_sm90

/// A part is of a warp: exponents are counted from its largest element.
template <class T, bool kIsLog = false>
struct SoftmaxSm90 {
  using Element = T;
  static constexpr NormKind kKind = kIsLog ? NormKind::kLogSoftmax : NormKind::kSoftmax;
  static constexpr int kInputs = norm_inputs(kKind), kOuts = 1, kSums = 0;
  static constexpr bool kHasResidual = false;
  static constexpr int kLanes = norm_sm90::kLanes<T>;
  struct alignas(8) Part {
    float high, total;  // the largest element; the sum of exponentials of differences from it
  };
  struct Factors {
    float base, factor;  // or what is subtracted from the logarithm
  };

  template <class R>
  TW_PTX static Part look(const R& row, int spans, float) {
    float high = -__builtin_inff(), total = 0;
    R::for_spans([&](int s) {
      const auto v = row.x(s);
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) high = fmaxf(high, s < spans ? v[e] : high);
    });
    high = norm_sm90::largest_of_lanes(high);
    const float base = norm_sm90::base_of(high);
    R::for_spans([&](int s) {
      const auto v = row.x(s);
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) total += s < spans ? norm_sm90::weight_of(v[e] - base) : 0;
    });
    return {high, norm_sm90::add_lanes(total)};
  }

  TW_PTX static Factors settle(const Part* parts, const float*, int count, float, float) {
    float high = -__builtin_inff(), total = 0;
    norm_sm90::for_lanes(count, [&](int i) { high = fmaxf(high, parts[i].high); });
    high = norm_sm90::largest_of_lanes(high);
    const float base = norm_sm90::base_of(high);
    norm_sm90::for_lanes(count, [&](int i) {
      total += parts[i].total * norm_sm90::weight_of(parts[i].high - base);
    });
    total = norm_sm90::add_lanes(total);
    if constexpr (kIsLog) return {high, logf(total)};
    return {base, 1 / total};
  }

  template <class R, class Sums>
  TW_PTX static norm_sm90::Pack<T> finish(const R& row, const Factors& by, Sums&, int s) {
    auto v = row.x(s);
    TW_UNROLL
    for (int e = 0; e < kLanes; ++e) {
      const float below = v[e] - by.base;
      v[e] = kIsLog ? below - by.factor : norm_sm90::weight_of(below) * by.factor;
    }
    return v;
  }
};
template <class T>
using LogSoftmaxSm90 = SoftmaxSm90<T, true>;

/// Inputs are grad and the output.
template <class T, bool kIsLog = false>
struct SoftmaxBackwardSm90 {
  using Element = T;
  static constexpr NormKind kKind =
      kIsLog ? NormKind::kLogSoftmaxBackward : NormKind::kSoftmaxBackward;
  static constexpr int kInputs = norm_inputs(kKind), kOuts = 1, kSums = 0;
  static constexpr bool kHasResidual = false;
  static constexpr int kLanes = norm_sm90::kLanes<T>;
  struct Part {
    float total;  // of grad, times the output but of the logarithm
  };
  using Factors = Part;

  template <class R>
  TW_PTX static Part look(const R& row, int, float) {
    float total = 0;
    R::for_spans([&](int s) {
      const auto g = row.x(s), y = row.second(s);
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) total += kIsLog ? g[e] : g[e] * y[e];
    });
    return {norm_sm90::add_lanes(total)};
  }

  TW_PTX static Factors settle(const Part* parts, const float*, int count, float, float) {
    float total = 0;
    norm_sm90::for_lanes(count, [&](int i) { total += parts[i].total; });
    return {norm_sm90::add_lanes(total)};
  }

  template <class R, class Sums>
  TW_PTX static norm_sm90::Pack<T> finish(const R& row, const Factors& by, Sums&, int s) {
    auto g = row.x(s);
    const auto y = row.second(s);
    TW_UNROLL
    for (int e = 0; e < kLanes; ++e)
      g[e] = kIsLog ? g[e] - norm_sm90::weight_of(y[e]) * by.total : y[e] * (g[e] - by.total);
    return g;
  }
};
template <class T>
using LogSoftmaxBackwardSm90 = SoftmaxBackwardSm90<T, true>;

}  // namespace tw::kernels
