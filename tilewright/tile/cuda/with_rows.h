// How the rows of a kernel's operands lie, on CUDA: with_rows hands them out as AlignedRow where
// all are aligned and of whole spans, else as AdjacentRow where the elements of each are adjacent,
// else as Views. Freestanding.
#pragma once

#include "tilewright/tile/cuda/alignment.h"
#include "tilewright/tile/cuda/rows.h"

namespace tw::tile {

namespace detail {

template <class C, class P, class T>
__device__ __forceinline__ bool is_adjacent(P p, const View<T, 1>& row) {
  return is_held<P, C>(p.threads(), row.size(0)) && row.stride(0) == 1;
}
template <class C, class P, class T>
__device__ __forceinline__ bool is_adjacent(P p, const Rows<T>& rows) {
  return is_held<P, C>(p.threads(), rows.cols) && rows.col_stride == 1;
}
template <class C, class P, class T>
__device__ __forceinline__ bool is_aligned(P p, const View<T, 1>& row) {
  return is_held<P, C>(p.threads(), row.size(0)) && is_aligned<P, C>(row);
}
template <class C, class P, class T>
__device__ __forceinline__ bool is_aligned(P p, const Rows<T>& rows) {
  return is_held<P, C>(p.threads(), rows.cols) && is_aligned<P, C>(rows);
}
template <class P, class C, class T>
TW_DEVICE constexpr bool is_registers(T*) {
  return RawOf<P, C, T>::kBytes >= 4;
}
template <int kBytes, class T>
TW_DEVICE constexpr bool is_short(T*) {
  return sizeof(T) <= kBytes;
}
/// Whether a span of each is at least a register, and elements of some are short: what is less goes
/// lane by lane, and what is more would take registers from other loops. Of few operands float32 is
/// short, too, but not where registers hold the rows of one or two: partial sums, mostly, which are
/// aligned up to their last columns, and for which a loop over words is the longer one.
template <class P, int kOperands>
inline constexpr int kShortBytes = kOperands <= 5 && (P::kSpans == 0 || kOperands > 2) ? 4 : 2;
template <class C, class P, class... Operand>
inline constexpr bool may_be_adjacent =
    (... && is_registers<P, C>(decltype(Operand::data){})) &&
    (... || is_short<kShortBytes<P, sizeof...(Operand)>>(decltype(Operand::data){}));

template <template <class> class Row, class P, class T>
__device__ __forceinline__ Row<T> as(P, const View<T, 1>& row, int) {
  return row_at<Row<T>>(row.data, row.size(0), 0);
}
template <template <class> class Row, class P, class T>
__device__ __forceinline__ auto as(P, const Rows<T>& rows, int in_word) {
  return RowsOf<Row<T>, T, (P::kSpans > 0)>{rows, in_word};
}

/// Whether words begin at the same columns of all rows. Those of a View are the same for each row,
/// and do not count.
template <class T, class U>
__device__ __forceinline__ bool is_in_phase(const Rows<T>& a, const Rows<U>& b, int in_word) {
  if (sizeof(T) != sizeof(U) || a.lead != b.lead) return false;
  auto bits = reinterpret_cast<uint64_t>(a.data) ^ reinterpret_cast<uint64_t>(b.data);
  TW_ROLLED
  for (int d = 0; d < a.lead; ++d)
    bits |= uint64_t(a.lead_strides[d] - b.lead_strides[d]) * sizeof(T);
  return (bits & unsigned(in_word)) == 0;
}
template <class T, class U>
__device__ __forceinline__ bool is_in_phase(const Rows<T>&, const View<U, 1>&, int) {
  return true;
}
/// The bits of an address within a word, if the operands' rows have phases.
template <class C, class P, class T, class... Operand>
__device__ __forceinline__ int phase_bits(P, const Rows<T>& first, const Operand&... rest) {
  constexpr int kInWord = RawOf<P, C, T>::kWordBytes - 1;
  return P::kSpans == 0 && (is_in_phase(first, rest, kInWord) && ...) ? kInWord : 0;
}
template <class C, class P, class T, class... Operand>
__device__ __forceinline__ int phase_bits(P, const View<T, 1>&, const Operand&...) {
  return 0;
}

}  // namespace detail

namespace detail {

template <class C, class P, class... Operand>
__device__ __forceinline__ bool are_aligned(P p, const Operand&... operands) {
  return (is_aligned<C>(p, operands) && ...);
}
template <class C, class P, class F, class... Operand>
__device__ __forceinline__ void with_other_rows(P p, F&& f, const Operand&... operands) {
  if constexpr (may_be_adjacent<C, P, Operand...>)
    if ((is_adjacent<C>(p, operands) && ...)) {
      const int in_word = phase_bits<C>(p, operands...);
      return f(as<AdjacentRow>(p, operands, in_word)...);
    }
  f(operands...);
}

}  // namespace detail

/// f of the operands, each a View of rank 1 or Rows, as aligned rows, which they are.
template <class P, class F, class... Operand>
__device__ __forceinline__ void with_aligned_rows(P p, F&& f, const Operand&... operands) {
  f(detail::as<AlignedRow>(p, operands, 0)...);
}
/// f of the operands, each a View of rank 1 or Rows, as rows that lie as all of them do.
template <class C = float, class P, class F, class... Operand>
__device__ __forceinline__ void with_rows(P p, F&& f, const Operand&... operands) {
  if (detail::are_aligned<C>(p, operands...))
    with_aligned_rows(p, f, operands...);
  else
    detail::with_other_rows<C>(p, f, operands...);
}

/// with_rows of the kernel's row_operands, for arithmetic on elements of the first.
template <class P, class Kernel, class F>
__device__ __forceinline__ void run_rows(P p, const Kernel& kernel, F&& f) {
  kernel.row_operands([&]<class T>(const Rows<const T>& first, const auto&... rest) {
    using C = compute_t<T>;
    if constexpr (P::kWay == kAlignedRows)
      with_aligned_rows(p, f, first, rest...);
    else
      detail::with_other_rows<C>(p, f, first, rest...);
  });
}
/// f of one row, as it lies.
template <class C = float, class P, class F, class T>
__device__ __forceinline__ void with_rows(P p, F&& f, const View<T, 1>& row) {
  using R = RawOf<P, C, T>;
  if (detail::is_aligned<C>(p, row)) return f(detail::as<AlignedRow>(p, row, 0));
  if constexpr (detail::may_be_adjacent<C, P, View<T, 1>>)
    if (detail::is_adjacent<C>(p, row))
      return f(
          row_at<AdjacentRow<T>>(row.data, row.size(0), P::kSpans == 0 ? R::kWordBytes - 1 : 0));
  f(row);
}
/// with_rows of a row of the kernel's only row operand, or of a part of whole spans.
template <class C, class P, class F, class T>
__device__ __forceinline__ void run_row(P p, F&& f, const View<T, 1>& row) {
  if constexpr (P::kWay == kAlignedRows)
    f(detail::as<AlignedRow>(p, row, 0));
  else
    with_rows<C>(p, f, row);
}

}  // namespace tw::tile
