// Row primitives on CUDA: the threads of an instance take the spans of a row in turn. The names and
// meanings are those of tile/cpu/primitives.h. Freestanding.
//
// Rows of any strides go lane by lane. Where with_rows finds all rows aligned, and their length
// whole spans, it hands out AlignedRow, whose spans are loaded and stored in words of 16 bytes; of
// these, keep_row keeps the first in registers.
#pragma once

#include "tilewright/tile/cuda/memory.h"
#include "tilewright/tile/cuda/program.h"
#include "tilewright/tile/reduction.h"

namespace tw::tile {

/// The columns [offset, offset + count) of a row, one lane each. kFull: count is the lane count.
template <class P, class C, bool kFull>
struct Span {
  using Vec = typename P::template Vec<C>;
  static constexpr int kLanes = P::template kLanes<C>;
  int64_t offset;
  int count;
  int slot;  // of those the thread keeps, a constant once loops are unrolled; -1: beyond
};

/// Adjacent elements, aligned to words and in whole spans.
template <class T>
struct AlignedRow {
  T* data;
  int64_t sizes[1];
  TW_INLINE int64_t size(int) const { return sizes[0]; }
};

/// A row that is read more than once: its first spans stay in the thread's registers, in the
/// storage type, so that memory is read once.
template <class P, class C, class T>
struct KeptRow {
  using R = RawOf<P, C, T>;
  /// 32 registers at most.
  static constexpr int kKept = cuda::kSlots * R::kBytes <= 128 ? cuda::kSlots : 128 / R::kBytes;
  AlignedRow<T> row;
  R slots[kKept];
  TW_INLINE int64_t size(int d) const { return row.size(d); }
};

/// Calls f(span) for the thread's spans of a row of n columns, in arithmetic type C.
template <class C = float, class P, class F>
__device__ __forceinline__ void for_row(P p, int64_t n, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  const int64_t step = int64_t{p.threads()} * kN;
  for (int64_t c = int64_t{p.thread()} * kN; c < n; c += step)
    f(Span<P, C, false>{c, n - c < kN ? int(n - c) : kN, -1});
}
/// The same for the columns of a row.
template <class C = float, class P, class T, class F>
__device__ __forceinline__ void for_row(P p, const View<T, 1>& row, F&& f) {
  for_row<C>(p, row.size(0), f);
}
template <class C = float, class P, class T, class F>
__device__ __forceinline__ void for_row(P p, const AlignedRow<T>& row, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  const int64_t step = int64_t{p.threads()} * kN;
  for (int64_t c = int64_t{p.thread()} * kN; c < row.size(0); c += step)
    f(Span<P, C, true>{c, kN, -1});
}
template <class C = float, class P, class T, class F>
__device__ __forceinline__ void for_row(P p, const KeptRow<P, C, T>& row, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  const int64_t step = int64_t{p.threads()} * kN, n = row.size(0);
  int64_t c = int64_t{p.thread()} * kN;
  TW_UNROLL
  for (int slot = 0; slot < KeptRow<P, C, T>::kKept; ++slot, c += step)
    if (c < n) f(Span<P, C, true>{c, kN, slot});
  for (; c < n; c += step) f(Span<P, C, true>{c, kN, -1});
}

/// The span's elements of a row, as they lie.
template <class P, class C, bool kFull, class T>
__device__ __forceinline__ auto load_raw(const AlignedRow<T>& row, const Span<P, C, kFull>& at) {
  static_assert(kFull);
  return RawOf<P, C, T>::load(row.data + at.offset);
}
template <class P, class C, bool kFull, class T>
__device__ __forceinline__ auto load_raw(const View<T, 1>& row, const Span<P, C, kFull>& at) {
  return RawOf<P, C, T>::gather(row.data + at.offset * row.stride(0), row.stride(0), at.count);
}
template <class P, class C, bool kFull, class T>
__device__ __forceinline__ auto load_raw(const KeptRow<P, C, T>& kept,
                                         const Span<P, C, kFull>& at) {
  if (at.slot >= 0) return kept.slots[at.slot];
  return load_raw(kept.row, at);
}

/// The span's elements of a row, in the arithmetic type. Lanes past the end are zero.
template <class Row, class P, class C, bool kFull>
__device__ __forceinline__ auto load(const Row& row, const Span<P, C, kFull>& at) {
  return load_raw(row, at).template widen<C>();
}

template <class P, class C, bool kFull, class T, class V>
__device__ __forceinline__ void store_cached(const AlignedRow<T>& row, const Span<P, C, kFull>& at,
                                             const V& v) {
  static_assert(kFull);
  RawOf<P, C, T>::narrow(v).store(row.data + at.offset);
}
template <class P, class C, bool kFull, class T, class V>
__device__ __forceinline__ void store_cached(const View<T, 1>& row, const Span<P, C, kFull>& at,
                                             const V& v) {
  RawOf<P, C, T>::narrow(v).scatter(row.data + at.offset * row.stride(0), row.stride(0), at.count);
}
template <class P, class C, bool kFull, class T, class V>
__device__ __forceinline__ void store_cached(KeptRow<P, C, T>& kept, const Span<P, C, kFull>& at,
                                             const V& v) {
  const auto raw = RawOf<P, C, T>::narrow(v);
  if (at.slot >= 0) kept.slots[at.slot] = raw;
  raw.store(kept.row.data + at.offset);
}
template <class Row, class P, class C, bool kFull, class V>
__device__ __forceinline__ void store(P, const Row& row, const Span<P, C, kFull>& at, const V& v) {
  store_cached(row, at, v);
}

template <class C = float, class P, class T>
__device__ __forceinline__ View<T, 1> keep_row(P, const View<T, 1>& row) {
  return row;
}
/// `row`, for loads in arithmetic type C, in registers as far as they reach.
template <class C = float, class P, class T>
__device__ __forceinline__ KeptRow<P, C, T> keep_row(P p, const AlignedRow<T>& row) {
  KeptRow<P, C, T> out;
  out.row = row;
  for_row<C>(p, out, [&](const auto& at) {
    if (at.slot >= 0) out.slots[at.slot] = load_raw(row, at);
  });
  return out;
}

/// A row that is written and then read again: kept as keep_row does.
template <class C = float, class P, class T>
__device__ __forceinline__ View<T, 1> new_row(P, const View<T, 1>& row) {
  return row;
}
template <class C = float, class P, class T>
__device__ __forceinline__ KeptRow<P, C, T> new_row(P, const AlignedRow<T>& row) {
  KeptRow<P, C, T> out;
  out.row = row;
  return out;
}

/// What the program's threads wrote before, all of them see after.
template <class P>
__device__ __forceinline__ void sync(P p) {
  p.sync();
}

namespace detail {

template <class C, class P, class T>
__device__ __forceinline__ bool is_aligned(P, const View<T, 1>& row) {
  return row.stride(0) == 1 && row.size(0) % P::template kLanes<C> == 0 &&
         RawOf<P, C, T>::is_aligned(row.data);
}

}  // namespace detail

/// f of the rows, as AlignedRow where all of them are.
template <class C = float, class P, class F, class... T>
__device__ __forceinline__ void with_rows(P p, F&& f, const View<T, 1>&... rows) {
  if ((detail::is_aligned<C>(p, rows) && ...))
    f(AlignedRow<T>{rows.data, {rows.size(0)}}...);
  else
    f(rows...);
}

/// v where the span has a column, `fill` in lanes past the end.
template <class P, class C, bool kFull, class V>
__device__ __forceinline__ V masked(const Span<P, C, kFull>& at, V v, C fill) {
  if constexpr (!kFull) {
    TW_UNROLL
    for (int i = 0; i < kLanesOf<V>; ++i) v[i] = i < at.count ? v[i] : fill;
  }
  return v;
}

/// The column numbers of a span's lanes, as integers as wide as C.
template <class I, class P, class C, bool kFull>
__device__ __forceinline__ auto columns(const Span<P, C, kFull>& at) {
  return iota<vec<I, P::template kLanes<C>>>(I(at.offset));
}

/// The reduction of `value` over the threads of the instance, in every thread. Lanes of a warp,
/// then warps: a fixed tree.
template <class R, class P, class C>
__device__ __forceinline__ C reduce_threads(P p, R, C value) {
  const int width = p.threads() < 32 ? p.threads() : 32;
  for (int lane = width / 2; lane > 0; lane /= 2)
    value = R::combine(value, __shfl_xor_sync(p.mask(), value, lane));
  if (p.threads() <= 32) return value;
  C* const shared = reinterpret_cast<C*>(p.shared_);
  const int warps = p.threads() / 32;
  if (p.thread() % 32 == 0) shared[p.thread() / 32] = value;
  __syncthreads();
  C all = shared[0];
  for (int w = 1; w < warps; ++w) all = R::combine(all, shared[w]);
  __syncthreads();  // the next reduction writes the same memory
  return all;
}

/// Reduces f(span) over a row, or over n columns; the same value in every thread. The order of
/// operations depends on the length and on the plan's columns alone. An empty row gives the
/// identity.
template <class C = float, class R, class P, class Row, class F>
__device__ __forceinline__ C reduce_row(P p, R r, const Row& row, F&& f) {
  using V = typename P::template Vec<C>;
  const C identity = R::template identity<C>();
  V acc = splat<V>(identity);
  for_row<C>(p, row, [&](const auto& at) {
    const V v = f(at);
    acc = R::combine(acc, masked(at, v, identity));
  });
  return reduce_threads(p, r, fold_lanes(acc, [](C a, C b) { return R::combine(a, b); }));
}

/// to[c] = f(from[c] ...) for every column. All operands are loaded as they lie before the first is
/// converted.
template <class C = float, class P, class T, class F, class... In>
__device__ __forceinline__ void map_row(P p, const View<T, 1>& to, F&& f,
                                        const View<In, 1>&... from) {
  with_rows<C>(
      p,
      [&](const auto& target, const auto&... source) {
        for_row<C>(p, target, [&](const auto& at) {
          [&](const auto&... raw) {
            store(p, target, at, f(raw.template widen<C>()...));
          }(load_raw(source, at)...);
        });
      },
      to, from...);
}

}  // namespace tw::tile
