// What RMSNorm of a sum does with a row on Hopper: see norm_row_sm90.h.
#pragma once

#include "tilewright/kernels/norm_row_sm90.h"

namespace tw::kernels {

/// See fused_add_rms_norm.h. Inputs are x and the residual; the sum, which is an output too, is
/// added up twice rather than kept.
template <class T>
struct FusedAddRmsNormSm90 {
  using Element = T;
  static constexpr int kOuts = 2, kSums = 0;
  static constexpr bool kHasResidual = false;
  static constexpr int kSpans = norm_sm90::kSpans, kLanes = norm_sm90::kLanes<T>;
  using Row = norm_sm90::Row<T>;

  struct Part {
    float squares;
  };
  struct Factors {
    float rstd;
  };

  TW_PTX static norm_sm90::Span<T> second_out(const Row& row, int s) {
    auto v = row.x(s);
    const auto more = row.second(s);
    TW_UNROLL
    for (int e = 0; e < kLanes; ++e) v[e] += more[e];
    return norm_sm90::Span<T>::narrow(v);
  }

  TW_PTX static Part look(const Row& row, int, float) {
    float squares = 0;
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) {
      const auto v = second_out(row, s).template widen<float>();
      TW_UNROLL
      for (int e = 0; e < kLanes; ++e) squares += v[e] * v[e];
    }
    return {norm_sm90::add_lanes(squares)};
  }

  TW_PTX static Factors settle(const Part* parts, const float*, int count, float inverse,
                               float eps) {
    float squares = 0;
    norm_sm90::for_lanes(count, [&](int i) { squares += parts[i].squares; });
    return {rsqrtf(norm_sm90::add_lanes(squares) * inverse + eps)};
  }

  template <class Sums>
  TW_PTX static norm_sm90::Pack<T> finish(const Row& row, const Factors& by, Sums&, int s) {
    auto v = second_out(row, s).template widen<float>();
    const auto w = row.weight(s);
    TW_UNROLL
    for (int e = 0; e < kLanes; ++e) v[e] = v[e] * by.rstd * w[e];
    return v;
  }
};

}  // namespace tw::kernels
