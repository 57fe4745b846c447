// What norms do with a row on Hopper: see norm_row_sm90.h.
#pragma once

#include "tilewright/kernels/norm_row_sm90.h"

namespace tw::kernels {

/// See rms_norm.h; kAdds: fused_add_rms_norm.h, whose inputs are x and the residual. Their sum,
/// which is an output too, is added up twice rather than kept.
template <class T, bool kAdds = false>
struct RmsNormSm90 {
  using Element = T;
  static constexpr NormKind kKind = kAdds ? NormKind::kFusedAddRms : NormKind::kRms;
  static constexpr int kInputs = norm_inputs(kKind), kOuts = kInputs, kSums = 0;
  static constexpr bool kHasResidual = false;
  static constexpr int kLanes = norm_sm90::kLanes<T>;

  struct Part {
    float squares;
  };
  struct Factors {
    float rstd;
  };

  template <class R>
  TW_PTX static norm_sm90::Span<T> second_out(const R& row, int s) {
    auto v = row.x(s);
    norm_sm90::add<T>(v, row.second(s));
    return norm_sm90::Span<T>::narrow(v);
  }

  template <class R>
  TW_PTX static Part look(const R& row, int, float) {
    float squares = 0;
    R::for_spans([&](int s) {
      const auto v = value(row, s);
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) squares += v[e] * v[e];
    });
    return {norm_sm90::add_lanes(squares)};
  }

  TW_PTX static Factors settle(const Part* parts, const float*, int count, float inverse,
                               float eps) {
    float squares = 0;
    norm_sm90::for_lanes(count, [&](int i) { squares += parts[i].squares; });
    return {rsqrtf(norm_sm90::add_lanes(squares) * inverse + eps)};
  }

  template <class R, class Sums>
  TW_PTX static norm_sm90::Pack<T> finish(const R& row, const Factors& by, Sums&, int s) {
    auto v = value(row, s);
    const auto w = row.weight(s);
    TW_UNROLL
    for (int e = 0; e < kLanes; ++e) v[e] = v[e] * by.rstd * w[e];
    return v;
  }

 private:
  template <class R>
  TW_PTX static norm_sm90::Pack<T> value(const R& row, int s) {
    if constexpr (kAdds) return second_out(row, s).template widen<float>();
    return row.x(s);
  }
};
template <class T>
using FusedAddRmsNormSm90 = RmsNormSm90<T, true>;

/// See layer_norm.h; the bias is what is added to the outputs of a row. Parts of rows as in
/// LayerNormBackwardSm90.
template <class T>
struct LayerNormSm90 {
  using Element = T;
  static constexpr NormKind kKind = NormKind::kLayer;
  static constexpr int kInputs = norm_inputs(kKind), kOuts = 1, kSums = 0;
  static constexpr bool kHasResidual = true;
  static constexpr int kLanes = norm_sm90::kLanes<T>;

  struct alignas(8) Part {
    float mean, squares;  // of x; the sum of (x - mean)^2
  };
  struct Factors {
    float mean, rstd;
  };

  template <class R>
  TW_PTX static Part look(const R& row, int spans, float inverse) {
    float squares = 0;
    const float mean = norm_sm90::mean_of<T>(row, inverse);
    R::for_spans([&](int s) {
      const float center = s < spans ? mean : 0;  // so that what is beyond adds nothing
      const auto v = row.x(s);
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) squares += (v[e] - center) * (v[e] - center);
    });
    return {mean, norm_sm90::add_lanes(squares)};
  }

  TW_PTX static Factors settle(const Part* parts, const float* columns, int count, float inverse,
                               float eps) {
    using namespace norm_sm90;
    float sum = 0, squares = 0;
    for_lanes(count, [&](int i) { sum += columns[i] * parts[i].mean; });
    const float mean = add_lanes(sum) * inverse;
    for_lanes(count, [&](int i) {
      const float d = parts[i].mean - mean;
      squares += parts[i].squares + columns[i] * d * d;
    });
    return {mean, rsqrtf(add_lanes(squares) * inverse + eps)};
  }

  template <class R, class Sums>
  TW_PTX static norm_sm90::Pack<T> finish(const R& row, const Factors& by, Sums&, int s) {
    auto v = row.x(s);
    const auto w = row.weight(s);
    TW_UNROLL
    for (int e = 0; e < kLanes; ++e) v[e] = (v[e] - by.mean) * by.rstd * w[e];
    return v;
  }
};

}  // namespace tw::kernels
