// How rows must lie so that threads load and store whole words of them. The host finds out for a
// kernel that names its row_operands, a kernel for others. Freestanding.
#pragma once

#include "tilewright/tile/cuda/program.h"

namespace tw::tile {

namespace detail {

/// A word of a span of T, for arithmetic in C.
template <class P, class C, class T>
inline constexpr int kSpanWordBytes =
    P::template kLanes<C> * int(sizeof(T)) < 16 ? P::template kLanes<C> * int(sizeof(T)) : 16;

/// Whether the spans of a spread program's threads are a whole row.
template <class P, class C>
TW_INLINE bool is_held(int64_t threads, int64_t cols) {
  return P::kSpans == 0 || cols <= threads * P::template kLanes<C> * P::kSpans;
}
/// Whether elements are adjacent, spans whole and words aligned. A common divisor of strides that
/// is a power of two is their bits'.
template <class P, class C, class T>
TW_INLINE bool is_aligned(const T* data, int64_t cols, int64_t col_stride, int64_t row_strides) {
  const auto bits = reinterpret_cast<uint64_t>(data) | uint64_t(row_strides) * sizeof(T);
  return col_stride == 1 && cols % P::template kLanes<C> == 0 &&
         bits % unsigned(kSpanWordBytes<P, C, T>) == 0;
}
template <class P, class C, class T>
TW_INLINE bool is_aligned(const View<T, 1>& row) {
  return is_aligned<P, C>(row.data, row.size(0), row.stride(0), 0);
}
template <class P, class C, class T>
TW_INLINE bool is_aligned(const Rows<T>& rows) {
  int64_t strides = rows.lead_strides[0];
  TW_ROLLED
  for (int d = 1; d < rows.lead; ++d) strides |= rows.lead_strides[d];
  return is_aligned<P, C>(rows.data, rows.cols, rows.col_stride, strides);
}

}  // namespace detail

namespace cuda {

/// The way of a kernel's programs: what the kernel says, and of row_operands whether all are
/// aligned, for arithmetic on elements of the first.
template <class P, class Kernel>
TW_INLINE int way_of(const Kernel& kernel, int64_t threads, [[maybe_unused]] const Machine& on) {
  int way = 0;
  if constexpr (requires { kernel.way(); }) way = kernel.way();
  if constexpr (requires { kernel.way(on); }) way = kernel.way(on);
  if constexpr (has_row_operands<Kernel>) {
    const auto are_aligned = [&]<class T>(const Rows<const T>& first, const auto&... rest) {
      using C = compute_t<T>;
      return tile::detail::is_held<P, C>(threads, first.cols) &&
             tile::detail::is_aligned<P, C>(first) && (tile::detail::is_aligned<P, C>(rest) && ...);
    };
    if (way == kAlignedRows && !kernel.row_operands(are_aligned)) way = kAnyRows;
  }
  if constexpr (gpu_variants<Kernel>() > 1) way += kernel.variant() * ways_of_variant<Kernel>();
  return way;
}

}  // namespace cuda
}  // namespace tw::tile
