// A thread's part of a row of a norm on Hopper: four spans of 16 bytes. A row is looked at, which
// gives a part for each warp; the parts of all warps settle the row's factors, by which it is
// finished. In shared memory zeros follow the ends of the inputs and of the weight.
#pragma once

#include "tilewright/kernels/norm_build_sm90.h"
#include "tilewright/tile/cuda/memory.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::kernels::norm_sm90 {

inline constexpr int kSpans = NormBuild::kSpans;
template <class T>
inline constexpr int kLanes = NormBuild::kSpanBytes / int(sizeof(T));
template <class T>
using Span = tile::Raw<T, kLanes<T>>;
/// A span's values.
template <class T>
using Pack = tile::Pack<float, kLanes<T>>;
/// Elements from a thread's span to the next: a warp has adjacent columns.
template <class T>
inline constexpr int kStep = 32 * kLanes<T>;
/// Sums of the thread's columns over rows.
template <class T, int kCount = kSpans>
using Sums = Pack<T>[kCount];

/// Over groups of so many lanes.
template <int kGroup = 32>
TW_PTX float add_lanes(float value) {
  TW_UNROLL
  for (int lane = kGroup / 2; lane > 0; lane /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, lane);
  return value;
}
/// Of numbers: what is not one is left out.
TW_PTX float largest_of_lanes(float value) {
  TW_UNROLL
  for (int lane = 16; lane > 0; lane /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
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

/// In shared memory, from the thread's first columns on.
template <class T>
struct Row {
  static constexpr int kCount = kSpans, kGroup = 32;
  const T* inputs[NormBuild::kInputs];
  const T* weights;

  TW_PTX Pack<T> x(int span) const { return load(inputs[0], span); }
  TW_PTX Pack<T> second(int span) const { return load(inputs[1], span); }
  TW_PTX Pack<T> weight(int span) const { return load(weights, span); }
  /// f(span) of all spans.
  template <class F>
  TW_PTX static void for_spans(F&& f) {
    TW_UNROLL
    for (int s = 0; s < kCount; ++s) f(s);
  }

 private:
  TW_PTX static Pack<T> load(const T* from, int span) {
    return Span<T>::load(from + span * kStep<T>).template widen<float>();
  }
};

/// In registers: kSpansHeld spans, which may be of as many rows; kSpansNear more are in shared
/// memory, a thread's beside those of its block's other threads, and of the weight there is one at
/// a time. kGroup lanes share a row.
template <class T, int kSpansHeld, int kLanesOfRow = 32, int kSpansNear = 0>
struct HeldRow {
  static constexpr int kCount = kSpansHeld + kSpansNear, kGroup = kLanesOfRow;
  static constexpr int kWeights = kSpansNear > 0 ? 1 : kSpansHeld;
  Span<T> inputs[NormBuild::kInputs][kSpansHeld], weights[kWeights];
  T* near;

  TW_PTX Pack<T> x(int span) const { return input(0, span); }
  TW_PTX Pack<T> second(int span) const { return input(1, span); }
  TW_PTX Pack<T> weight(int span) const { return weights[slot(span)].template widen<float>(); }
  TW_PTX static int slot(int span) { return kWeights == 1 ? 0 : span; }
  template <class F>
  TW_PTX static void for_spans(F&& f) {
    TW_UNROLL
    for (int s = 0; s < kSpansHeld; ++s) f(s);
    TW_NO_UNROLL
    for (int s = kSpansHeld; s < kCount; ++s) f(s);
  }
  /// Of shared memory.
  TW_PTX T* near_span(int which, int span) const {
    const int before = (which * kSpansNear + span - kSpansHeld) * int(blockDim.x);
    return near + (before + int(threadIdx.x)) * kLanes<T>;
  }

 private:
  TW_PTX Pack<T> input(int which, int span) const {
    if constexpr (kSpansNear > 0)
      if (span >= kSpansHeld) return Span<T>::load(near_span(which, span)).template widen<float>();
    return inputs[which][span].template widen<float>();
  }
};

/// Of what the warp, or the group of lanes, has of a row, of which `inverse` is one by the columns;
/// what is beyond is 0.
template <class T, class R>
TW_PTX float mean_of(const R& row, float inverse) {
  float sum = 0;
  R::for_spans([&](int s) {
    const auto v = row.x(s);
    TW_UNROLL
    for (int e = 0; e < kLanes<T>; ++e) sum += v[e];
  });
  return add_lanes<R::kGroup>(sum) * inverse;
}
template <class T>
TW_PTX void add(Pack<T>& to, const Pack<T>& more) {
  TW_UNROLL
  for (int e = 0; e < kLanes<T>; ++e) to[e] += more[e];
}

template <class T>
TW_PTX Span<T> ones() {
  Pack<T> ones;
  TW_UNROLL
  for (int e = 0; e < kLanes<T>; ++e) ones[e] = 1;
  return Span<T>::narrow(ones);
}

}  // namespace tw::kernels::norm_sm90
