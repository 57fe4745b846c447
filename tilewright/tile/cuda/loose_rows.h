// Rows of any kind for loops of which there is one: each operand's elements come as it has them, so
// that one which is broadcast, or has gaps, does not hold up the others. Freestanding.
#pragma once

#include "tilewright/tile/cuda/with_rows.h"

namespace tw::tile::detail {

/// A span of elements some distance apart; `left`: of the row, from the first one on. Every second
/// one comes in the words that they lie in.
template <class R, class T>
__device__ __forceinline__ R load_apart(const T* from, int64_t stride, int count, int64_t left) {
  using Element = typename remove_const<T>::type;
  constexpr int kN = R::kBytes / int(sizeof(T));
  using Wide = Raw<Element, 2 * kN>;
  if (stride == 2 && left > kN && Wide::is_aligned(from)) {
    const Wide wide = Wide::load(from);
    Element lanes[kN];
    TW_UNROLL
    for (int i = 0; i < kN; ++i) lanes[i] = wide.element(2 * i);
    return R::of(lanes);
  }
  return R::gather(from, stride, count);
}

/// Rows of which some are not aligned. What is done with their elements is the larger part of a
/// loop: there is one for all.
template <class T>
struct LooseRow {
  View<T, 1> row;
  bool is_adjacent;
  template <class C, class P>
  __device__ __forceinline__ static LooseRow of(P p, const View<T, 1>& row) {
    return {row, detail::is_adjacent<C>(p, row)};
  }
  __device__ __forceinline__ AdjacentRow<T> adjacent() const { return {row.data, row.size(0)}; }
};
template <class P, class C, class T>
__device__ __forceinline__ auto load_raw(const LooseRow<T>& from, const Span<P, C, false>& at) {
  using R = RawOf<P, C, T>;
  const View<T, 1>& row = from.row;
  if constexpr (R::kBytes >= 4)
    if (from.is_adjacent) return tile::load_raw(from.adjacent(), at);
  if (row.stride(0) == 0) {  // as where it is broadcast
    constexpr int kN = P::template kLanes<C>;
    typename remove_const<T>::type lanes[kN];
    const auto one = row.data[0];
    TW_UNROLL
    for (int i = 0; i < kN; ++i) lanes[i] = one;
    return R::of(lanes);
  }
  return load_apart<R>(row.data + at.offset * row.stride(0), row.stride(0), at.count,
                       row.size(0) - at.offset);
}
template <class P, class C, class T, class V>
__device__ __forceinline__ void store_loose(const LooseRow<T>& to, const Span<P, C, false>& at,
                                            const V& v) {
  if constexpr (RawOf<P, C, T>::kBytes >= 4)
    if (to.is_adjacent) return store_cached(to.adjacent(), at, v);
  store_cached(to.row, at, v);
}

}  // namespace tw::tile::detail
