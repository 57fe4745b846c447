// Sums of columns on CUDA: in registers, as the kept rows of spread programs are. Freestanding.
#pragma once

#include "tilewright/tile/cuda/rows.h"

namespace tw::tile {

template <class P>
struct HeldSums {
  static_assert(P::kSpans > 0, "other programs' registers may not hold the whole row");
  using V = typename P::template Vec<float>;
  static constexpr int kKept = P::template kKeptSpans<float, float>;
  AlignedRow<float> row;
  V slots[kKept];
};

template <class P>
__device__ __forceinline__ View<float, 1> hold_sums(P p, const View<float, 1>& row) {
  if (row.data != nullptr)
    for_row(p, row,
            [&](const auto& at) { store_cached(row, at, typename P::template Vec<float>{}); });
  return row;
}
/// Sums, zeros as yet, that end in `row`: put_sums brings them there. They are added to at the
/// spans of kept rows of a spread program.
template <class P>
__device__ __forceinline__ HeldSums<P> hold_sums(P, const AlignedRow<float>& row) {
  HeldSums<P> out;
  out.row = row;
  TW_UNROLL
  for (int i = 0; i < HeldSums<P>::kKept; ++i) out.slots[i] = splat<typename HeldSums<P>::V>(0.0f);
  return out;
}

template <class P, bool kFull, class V>
__device__ __forceinline__ void add_to(const View<float, 1>& sums, const Span<P, float, kFull>& at,
                                       const V& v) {
  store_cached(sums, at, load(sums, at) + v);
}
template <class P, bool kFull, class V>
__device__ __forceinline__ void add_to(HeldSums<P>& sums, const Span<P, float, kFull>& at,
                                       const V& v) {
  sums.slots[at.slot] += v;
}

template <class P>
__device__ __forceinline__ void put_sums(P, const View<float, 1>&) {}
template <class P>
__device__ __forceinline__ void put_sums(P p, const HeldSums<P>& sums) {
  if (sums.row.data == nullptr) return;
  for_slots<float, HeldSums<P>::kKept>(p, sums.row.size(0), [&](const auto& at) {
    store_cached(sums.row, at, sums.slots[at.slot]);
  });
}

}  // namespace tw::tile
