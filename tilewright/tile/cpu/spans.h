// A row on the CPU is walked in spans of one vector or a few; the last span may be partial, and
// what lies past the end is never touched.
#pragma once

#include "tilewright/tile/cpu/chains.h"
#include "tilewright/tile/cpu/program.h"
#include "tilewright/tile/cpu/rows.h"

namespace tw::tile {

namespace detail {
template <class V, int kN>
struct ChainsOf {
  using type = Chains<V, kN>;
};
template <class V>
struct ChainsOf<V, 1> {
  using type = V;
};
}  // namespace detail

/// The columns [offset, offset + count) of a row, one lane each. kFull: count is the lane count.
/// kChains: of how many native vectors.
template <class P, class C, bool kFull, int kChains = 1>
struct Span {
  using Vec = typename detail::ChainsOf<typename P::template Vec<C>, kChains>::type;
  static constexpr int kLanes = kChains * P::template kLanes<C>;
  int64_t offset;
  int count;

  TW_INLINE Span<P, C, true> vector(int i) const
    requires(kChains > 1)
  {
    constexpr int kN = P::template kLanes<C>;
    return {offset + i * kN, kN};
  }
};

/// Calls f(span) for every span of a row of n columns, in arithmetic type C. kChains: 1, 2 or 4
/// vectors to a full span, for an f that is long.
template <class C = float, int kChains = 1, class P, class F>
TW_INLINE void for_row(P, int64_t n, F&& f) {
  constexpr int kN = P::template kLanes<C>, kWide = kChains * kN;
  int64_t c = 0;
  if constexpr (kChains > 1) {
    for (; c + kWide <= n; c += kWide) f(Span<P, C, true, kChains>{c, kWide});
  } else {
    for (; c + 4 * kN <= n; c += 4 * kN) {
      TW_UNROLL
      for (int u = 0; u < 4; ++u) f(Span<P, C, true>{c + u * kN, kN});
    }
  }
  for (; c + kN <= n; c += kN) f(Span<P, C, true>{c, kN});
  if (c < n) f(Span<P, C, false>{c, int(n - c)});
}

/// The same for the columns of a row.
template <class C = float, int kChains = 1, class P, class T, class F>
TW_INLINE void for_row(P p, const View<T, 1>& row, F&& f) {
  for_row<C, kChains>(p, row.size(0), f);
}
template <class C = float, int kChains = 1, class P, class T, class F>
TW_INLINE void for_row(P p, const AdjacentRow<T>& row, F&& f) {
  for_row<C, kChains>(p, row.count, f);
}
template <class C = float, int kChains = 1, class P, class T, class F>
TW_INLINE void for_row(P, const LooseRow<T>& row, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  const int64_t n = row.size(0);
  int64_t c = 0;
  for (; c + kN <= n; c += kN) f(Span<P, C, true>{c, kN});
  if (c < n) f(Span<P, C, false>{c, int(n - c)});
}

/// The span's elements of a row, in the arithmetic type. Lanes past the end are zero.
template <class P, class C, bool kFull, class T>
TW_INLINE auto load(const AdjacentRow<T>& row, const Span<P, C, kFull>& at) {
  using V = typename P::template Vec<C>;
  if constexpr (kFull)
    return load<V>(row.data + at.offset);
  else
    return load_partial<V>(row.data + at.offset, at.count);
}
template <class P, class C, bool kFull, class T>
TW_INLINE auto load(const View<T, 1>& row, const Span<P, C, kFull>& at) {
  using V = typename P::template Vec<C>;
  if (row.stride(0) == 1) [[likely]]
    return load(AdjacentRow<T>{row.data, row.size(0)}, at);
  if (row.stride(0) == 0) return splat<V>(compute_t<T>(row.data[0]));
  return gather_apart<V>(row.data + at.offset * row.stride(0), row.stride(0), at.count);
}

/// Elements to be widened when they are wanted: a CPU does so as it loads them.
template <class V>
struct Loaded {
  V v;
  template <class C>
  TW_INLINE V widen() const {
    return v;
  }
};
template <class P, class C, bool kFull, class Row>
TW_INLINE auto load_raw(const Row& row, const Span<P, C, kFull>& at) {
  return Loaded<typename P::template Vec<C>>{load(row, at)};
}

/// Writes the span's lanes to a row that is read again soon.
template <class P, class C, bool kFull, class T, class V>
TW_INLINE void store_cached(const AdjacentRow<T>& row, const Span<P, C, kFull>& at, V v) {
  if constexpr (kFull)
    tile::store(row.data + at.offset, v);
  else
    store_partial(row.data + at.offset, v, at.count);
}
template <class P, class C, bool kFull, class T, class V>
TW_INLINE void store_cached(const View<T, 1>& row, const Span<P, C, kFull>& at, V v) {
  if (row.stride(0) == 1) [[likely]]
    store_cached(AdjacentRow<T>{row.data, row.size(0)}, at, v);
  else
    scatter_apart(row.data + at.offset * row.stride(0), row.stride(0), v, at.count);
}

/// Writes the span's lanes to a row, around the caches when the program streams.
template <class P, class C, bool kFull, class T, class V>
TW_INLINE void store(P, const AdjacentRow<T>& row, const Span<P, C, kFull>& at, V v) {
  if constexpr (kFull) {
    if (row.around) return stream(row.data + at.offset, v);
  }
  store_cached(row, at, v);
}
template <class P, class C, bool kFull, class T, class V>
TW_INLINE void store(P p, const View<T, 1>& row, const Span<P, C, kFull>& at, V v) {
  if (row.stride(0) == 1) [[likely]]
    store(p, detail::adjacent(p, row), at, v);
  else
    store_cached(row, at, v);
}

/// Begins to fetch the span's elements of a row that is read later, if memory is where they are.
template <class P, class C, bool kFull, class T>
TW_INLINE void prefetch(P p, const AdjacentRow<T>& row, const Span<P, C, kFull>& at) {
  if (p.streaming() && at.offset * int64_t{sizeof(T)} % kLineBytes == 0)
    prefetch_l2(row.data + at.offset);
}
template <class P, class T, class At>
TW_INLINE void prefetch(P, const View<T, 1>&, const At&) {}

// A wide span, vector by vector.
template <class P, class C, int kChains, class Row>
  requires(kChains > 1)
TW_INLINE auto load(const Row& row, const Span<P, C, true, kChains>& at) {
  return detail::in_each_chain<kChains>([&](int i) TW_INLINED { return load(row, at.vector(i)); });
}
template <class P, class C, int kChains, class Row, class V>
  requires(kChains > 1)
TW_INLINE void store_cached(const Row& row, const Span<P, C, true, kChains>& at, const V& v) {
  static_assert(!detail::is_paired<V>, "pairs of bf16 fit no other row");
  TW_UNROLL
  for (int i = 0; i < kChains; ++i) store_cached(row, at.vector(i), v.part[i]);
}
template <class P, class C, int kChains, class T, class V>
  requires(kChains > 1)
TW_INLINE void store(P, const AdjacentRow<T>& row, const Span<P, C, true, kChains>& at,
                     const V& v) {
  if (!row.around) return store_cached(row, at, v);
  TW_UNROLL
  for (int i = 0; i < kChains; ++i) stream(row.data + at.vector(i).offset, v.part[i]);
}
template <class P, class C, int kChains, class T, class V>
  requires(kChains > 1)
TW_INLINE void store(P p, const View<T, 1>& row, const Span<P, C, true, kChains>& at, const V& v) {
  static_assert(!detail::is_paired<V>, "pairs of bf16 fit no other row");
  TW_UNROLL
  for (int i = 0; i < kChains; ++i) store(p, row, at.vector(i), v.part[i]);
}

// A wide span of bf16 in pairs: two vectors come from one and go into one without moving a lane.
template <class P, int kChains, class T>
  requires(kChains > 1 && (same_type<T, bf16> || same_type<T, const bf16>))
TW_INLINE auto load(const AdjacentRow<T>& row, const Span<P, float, true, kChains>& at) {
  using V = typename P::f32;
  using Pairs = typename P::template Vec<uint32_t>;
  Chains<V, kChains, true> out;
  TW_UNROLL
  for (int i = 0; i < kChains; i += 2) {
    const auto pairs = load_bits<Pairs>(row.data + at.vector(i).offset);
    out.part[i] = bit_cast<V>(pairs << 16);
    out.part[i + 1] = bit_cast<V>(pairs & 0xffff0000u);
  }
  return out;
}
template <class P, int kChains, class V>
TW_INLINE void store_cached(const AdjacentRow<bf16>& row, const Span<P, float, true, kChains>& at,
                            const Chains<V, kChains, true>& v) {
  TW_UNROLL
  for (int i = 0; i < kChains; i += 2) {
    const auto pairs = narrow_bf16_pairs<kLanesOf<V>>(v.part[i], v.part[i + 1]);
    __builtin_memcpy(row.data + at.vector(i).offset, &pairs, sizeof(pairs));
  }
}
template <class P, int kChains, class V>
TW_INLINE void store(P, const AdjacentRow<bf16>& row, const Span<P, float, true, kChains>& at,
                     const Chains<V, kChains, true>& v) {
  if (!row.around) return store_cached(row, at, v);
  TW_UNROLL
  for (int i = 0; i < kChains; i += 2)
    stream(reinterpret_cast<uint32_t*>(row.data + at.vector(i).offset),
           narrow_bf16_pairs<kLanesOf<V>>(v.part[i], v.part[i + 1]));
}

template <class P, class C, int kChains, class T>
  requires(kChains > 1)
TW_INLINE void prefetch(P p, const AdjacentRow<T>& row, const Span<P, C, true, kChains>& at) {
  if (!p.streaming()) return;
  for (int i = 0; i < at.kLanes; i += kLineBytes / int{sizeof(T)})
    prefetch_l2(row.data + at.offset + i);
}
/// Begins to fetch what a loop over the row comes to some spans later: where arithmetic fills the
/// processor's window, loads do not reach ahead far enough by themselves. The spans of a row's end
/// have their share in what is fetched of the next.
template <class P, class C, bool kFull, int kChains, class T>
TW_INLINE void prefetch_ahead(P p, const AdjacentRow<T>& row,
                              const Span<P, C, kFull, kChains>& at) {
  constexpr int64_t kAhead = 4096, kBytes = Span<P, C, kFull, kChains>::kLanes * int64_t{sizeof(T)};
  if (!p.streaming()) return;
  const int64_t past = (at.offset - row.count) * int64_t{sizeof(T)} + kAhead;
  const auto fetch = [](uint64_t first, int64_t bytes) TW_INLINED {
    for (int64_t b = 0; b < bytes; b += kLineBytes)
      prefetch_l2(reinterpret_cast<const void*>(first + uint64_t(b)));
  };
  fetch(past < 0 ? uint64_t(row.data + at.offset) + kAhead : uint64_t(row.next) + uint64_t(past),
        kBytes);
  if (past < kLineBytes && past + kBytes > 0) [[unlikely]]
    fetch(uint64_t(row.next), past + kBytes);
}
template <class P, class T, class At>
TW_INLINE void prefetch_ahead(P, const View<T, 1>&, const At&) {}

}  // namespace tw::tile
