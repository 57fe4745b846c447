// Rows on CUDA that are read more than once: their first spans stay in the threads' registers, the
// next ones in shared memory, so that memory is read once. Freestanding.
#pragma once

#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/rows.h"

namespace tw::tile {

/// A row that is kept, in the storage type. What a thread keeps, it alone reads.
template <class P, class C, class T>
struct KeptRow {
  using R = RawOf<P, C, T>;
  static constexpr int kKept = P::template kKeptSpans<C, T>;
  AlignedRow<T> row;
  R slots[kKept];
  T* shared = nullptr;     // of column 0, were it there
  int64_t shared_end = 0;  // columns from the first after the registers' to here are there
  TW_INLINE int64_t size(int d) const { return row.size(d); }
  TW_INLINE T* beyond_slots(int64_t c) const { return (c < shared_end ? shared : row.data) + c; }
};

/// The same of a row that is not aligned: in shared memory alone. What would be kept in registers,
/// each loop over it would have to be spelled out for, with all that its ends take.
template <class P, class C, class T>
struct KeptAdjacentRow {
  AdjacentRow<T> row;
  T* shared = nullptr;     // of the word that column 0 is in
  int64_t shared_end = 0;  // so many elements are there
  TW_INLINE int64_t size(int d) const { return row.size(d); }
  /// Where the span is that begins with a column, whose first lane comes first.
  template <int kN>
  TW_INLINE int64_t place(int64_t column) const {
    return span_number<kN>(row, column) * kN;
  }
};

/// The same of a spread program, whose registers hold it.
template <class P, class C, class T>
struct HeldAdjacentRow {
  RawOf<P, C, T> slots[P::kSpans];
  int64_t n;
  TW_INLINE int64_t size(int) const { return n; }
};

namespace detail {
/// Columns of a row that the registers of an instance hold.
template <class P, class C, class T>
TW_INLINE constexpr int64_t kept_in_registers(int threads) {
  return int64_t{threads} * P::template kLanes<C> * KeptRow<P, C, T>::kKept;
}
}  // namespace detail

template <class P, class C, class T, class F>
__device__ __forceinline__ void for_slots(P p, const KeptRow<P, C, T>& row, F&& f) {
  for_slots<C, KeptRow<P, C, T>::kKept>(p, row.size(0), f);
}
template <class C = float, int kChains = 1, class P, class T, class F>
__device__ __forceinline__ void for_row(P p, const KeptRow<P, C, T>& row, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  const int64_t step = int64_t{p.threads()} * kN, n = row.size(0);
  for_slots(p, row, f);
  if constexpr (P::kSpans > 0) return;  // registers hold the row: see is_held
  int64_t c = detail::kept_in_registers<P, C, T>(p.threads()) + int64_t{p.thread()} * kN;
  TW_UNROLL_4  // so that loads go ahead of what is done with the ones before
      for (; c < n; c += step) f(Span<P, C, true>{c, kN, -1});
}

template <class C = float, int kChains = 1, class P, class T, class F>
__device__ __forceinline__ void for_row(P p, const KeptAdjacentRow<P, C, T>& row, F&& f) {
  for_row<C>(p, row.row, f);
}

template <class C = float, int kChains = 1, class P, class T, class F>
__device__ __forceinline__ void for_row(P p, const HeldAdjacentRow<P, C, T>& row, F&& f) {
  for_slots<C, P::kSpans, false>(p, row.n, f);
}
template <class P, class C, bool kFull, class T>
__device__ __forceinline__ auto load_raw(const HeldAdjacentRow<P, C, T>& kept,
                                         const Span<P, C, kFull>& at) {
  return kept.slots[at.slot];
}

template <class P, class C, bool kFull, class T>
__device__ __forceinline__ auto load_raw(const KeptAdjacentRow<P, C, T>& kept,
                                         const Span<P, C, kFull>& at) {
  const int64_t place = kept.template place<P::template kLanes<C>>(at.offset);
  if (place < kept.shared_end) return RawOf<P, C, T>::load(kept.shared + place);
  return load_raw(kept.row, at);
}
template <class P, class C, bool kFull, class T>
__device__ __forceinline__ auto load_raw(const KeptRow<P, C, T>& kept,
                                         const Span<P, C, kFull>& at) {
  if (at.slot >= 0) return kept.slots[at.slot];
  return RawOf<P, C, T>::load(kept.beyond_slots(at.offset));
}
template <class P, class C, bool kFull, class T, class V>
__device__ __forceinline__ void store_cached(KeptRow<P, C, T>& kept, const Span<P, C, kFull>& at,
                                             const V& v) {
  const auto raw = RawOf<P, C, T>::narrow(v);
  if (at.slot >= 0)
    kept.slots[at.slot] = raw;
  else if (at.offset < kept.shared_end)
    raw.store(kept.shared + at.offset);
  raw.store(kept.row.data + at.offset);
}
template <class P, class C, bool kFull, class T, class V>
__device__ __forceinline__ void store_cached(KeptAdjacentRow<P, C, T>& kept,
                                             const Span<P, C, kFull>& at, const V& v) {
  const auto raw = RawOf<P, C, T>::narrow(v);
  const int64_t place = kept.template place<P::template kLanes<C>>(at.offset);
  if (place < kept.shared_end) raw.store(kept.shared + place);
  store_raw(kept.row, at, raw);
}

namespace detail {
/// A row to be kept, of which nothing is kept yet.
template <class C, class P, class T>
__device__ __forceinline__ KeptRow<P, C, T> open_row(P p, const AlignedRow<T>& row, int which) {
  using Element = typename remove_const<T>::type;
  KeptRow<P, C, T> out;
  out.row = row;
  const int64_t first = kept_in_registers<P, C, T>(p.threads());
  const int64_t bytes = P::template kept_bytes<C, Element>(row.size(0));
  if (row.size(0) > first && (which + 1) * bytes <= p.shared_scratch()) {
    const int64_t count = bytes / int64_t{sizeof(T)};
    out.shared = p.template scratch<Element>() + which * count - first;
    out.shared_end = first + count;
  }
  return out;
}
template <class C, class P, class T>
__device__ __forceinline__ KeptAdjacentRow<P, C, T> open_row(P p, const AdjacentRow<T>& row,
                                                             int which) {
  using Element = typename remove_const<T>::type;
  const int64_t bytes = P::template kept_bytes<C, Element>(row.size(0));
  const bool is_planned =  // of others, a part is
      sizeof(T) <= 4 && row.size(0) % P::template kLanes<C> != 0;
  if (!is_planned || (which + 1) * bytes > p.shared_scratch()) return {row};
  const int64_t count = bytes / int64_t{sizeof(T)};
  return {row, p.template scratch<Element>() + which * count, count};
}
}  // namespace detail

template <class C = float, class P, class T>
__device__ __forceinline__ View<T, 1> keep_row(P, const View<T, 1>& row, int = 0) {
  return row;
}
/// `row`, for loads in arithmetic type C, near at hand as far as that reaches. The plan's scratch
/// begins with kept_bytes for each row that is kept; this is number `which` of them.
template <class C = float, class P, class T>
__device__ __forceinline__ KeptRow<P, C, T> keep_row(P p, const AlignedRow<T>& row, int which = 0) {
  using R = RawOf<P, C, T>;
  using Element = typename remove_const<T>::type;
  constexpr int kN = P::template kLanes<C>, kStep = R::kWordBytes / int(sizeof(T));
  KeptRow<P, C, T> out = detail::open_row<C>(p, row, which);
  const int64_t end = row.size(0) < out.shared_end ? row.size(0) : out.shared_end;
  const int64_t first = detail::kept_in_registers<P, C, T>(p.threads());
  TW_ROLLED
  for (int64_t c = first + int64_t{p.thread()} * kN; c < end; c += int64_t{p.threads()} * kN) {
    TW_UNROLL
    for (int i = 0; i < kN; i += kStep)
      cuda::copy_async<R::kWordBytes>(const_cast<Element*>(out.shared) + c + i, row.data + c + i);
  }
  for_slots(p, out, [&](const auto& at) { out.slots[at.slot] = load_raw(row, at); });
  if (end > first) cuda::wait_copies();
  return out;
}

template <class C = float, class P, class T>
__device__ __forceinline__ KeptAdjacentRow<P, C, T> keep_row(P p, const AdjacentRow<T>& row,
                                                             int which = 0) {
  using Element = typename remove_const<T>::type;
  const KeptAdjacentRow<P, C, T> out = detail::open_row<C>(p, row, which);
  const int64_t columns = out.shared_end - row.phase;  // from there on it is not kept
  for_spans<C>(p, columns < row.size(0) ? row.part(0, columns) : row,
               [&](const auto& at, const auto& raw) {
                 raw.store(const_cast<Element*>(out.shared) +
                           out.template place<P::template kLanes<C>>(at.offset));
               });
  return out;
}

/// The same in registers alone, where scratch is for something else.
template <class C = float, class P, class Row>
__device__ __forceinline__ Row fetch_row(P, const Row& row) {
  return row;
}
template <class C = float, class P, class T>
__device__ __forceinline__ KeptRow<P, C, T> fetch_row(P p, const AlignedRow<T>& row) {
  KeptRow<P, C, T> out;
  out.row = row;
  for_slots(p, out, [&](const auto& at) { out.slots[at.slot] = load_raw(row, at); });
  return out;
}

template <class C = float, class P, class T>
  requires(P::kSpans > 0)
__device__ __forceinline__ HeldAdjacentRow<P, C, T> fetch_row(P p, const AdjacentRow<T>& row) {
  HeldAdjacentRow<P, C, T> out;
  out.n = row.size(0);
  for_row<C>(p, row, [&](const auto& at) { out.slots[at.slot] = load_raw(row, at); });
  return out;
}

/// A row that is written and then read again: kept as keep_row does, and where the kept row of the
/// same number is no longer read.
template <class C = float, class P, class Row>
__device__ __forceinline__ Row new_row(P, const Row& row, int = 0) {
  return row;
}
template <class C = float, class P, class T>
__device__ __forceinline__ KeptRow<P, C, T> new_row(P p, const AlignedRow<T>& row, int which = 0) {
  return detail::open_row<C>(p, row, which);
}
template <class C = float, class P, class T>
__device__ __forceinline__ KeptAdjacentRow<P, C, T> new_row(P p, const AdjacentRow<T>& row,
                                                            int which = 0) {
  return detail::open_row<C>(p, row, which);
}

}  // namespace tw::tile
