// Row primitives on the CPU. A row is walked in spans of one vector; the last span may be partial,
// and what lies past the end is never touched.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/cpu/program.h"
#include "tilewright/tile/reduction.h"

namespace tw::tile {

/// The columns [offset, offset + count) of a row, one lane each. kFull: count is the lane count.
template <class P, class C, bool kFull>
struct Span {
  using Vec = typename P::template Vec<C>;
  static constexpr int kLanes = P::template kLanes<C>;
  int64_t offset;
  int count;
};

/// Calls f(span) for every span of a row of n columns, in arithmetic type C.
template <class C = float, class P, class F>
TW_INLINE void for_row(P, int64_t n, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  int64_t c = 0;
  for (; c + 4 * kN <= n; c += 4 * kN) {  // four independent chains hide the latencies
    f(Span<P, C, true>{c, kN});
    f(Span<P, C, true>{c + kN, kN});
    f(Span<P, C, true>{c + 2 * kN, kN});
    f(Span<P, C, true>{c + 3 * kN, kN});
  }
  for (; c + kN <= n; c += kN) f(Span<P, C, true>{c, kN});
  if (c < n) f(Span<P, C, false>{c, int(n - c)});
}

/// The same for the columns of a row.
template <class C = float, class P, class T, class F>
TW_INLINE void for_row(P p, const View<T, 1>& row, F&& f) {
  for_row<C>(p, row.size(0), f);
}

/// f of the rows: a target may hand out types for which loads and stores are quicker.
template <class C = float, class P, class F, class... T>
TW_INLINE void with_rows(P, F&& f, const View<T, 1>&... rows) {
  f(rows...);
}

/// The span's elements of a row, in the arithmetic type. Lanes past the end are zero.
template <class P, class C, bool kFull, class T>
TW_INLINE auto load(const View<T, 1>& row, const Span<P, C, kFull>& at) {
  using V = typename P::template Vec<C>;
  if (row.stride(0) == 1) [[likely]] {
    if constexpr (kFull)
      return load<V>(row.data + at.offset);
    else
      return load_partial<V>(row.data + at.offset, at.count);
  }
  if (row.stride(0) == 0) return splat<V>(compute_t<T>(row.data[0]));
  return gather<V>(row.data + at.offset * row.stride(0), row.stride(0), at.count);
}

/// Writes the span's lanes to a row that is read again soon.
template <class P, class C, bool kFull, class T, class V>
TW_INLINE void store_cached(const View<T, 1>& row, const Span<P, C, kFull>& at, V v) {
  if (row.stride(0) == 1) [[likely]] {
    if constexpr (kFull)
      tile::store(row.data + at.offset, v);
    else
      store_partial(row.data + at.offset, v, at.count);
  } else {
    scatter(row.data + at.offset * row.stride(0), row.stride(0), v, at.count);
  }
}

/// Writes the span's lanes to a row, around the caches when the program streams.
template <class P, class C, bool kFull, class T, class V>
TW_INLINE void store(P p, const View<T, 1>& row, const Span<P, C, kFull>& at, V v) {
  if constexpr (kFull) {
    T* to = row.data + at.offset;
    if (p.streaming() && row.stride(0) == 1 && is_streamable<V>(to)) return stream(to, v);
  }
  store_cached(row, at, v);
}

/// What the program's threads wrote before, all of them see after. A CPU program is one thread.
template <class P>
TW_INLINE void sync(P) {}

/// A row that is read more than once. On a CPU it stays in cache by itself; elsewhere it is kept in
/// registers.
template <class C = float, class P, class T>
TW_INLINE View<T, 1> keep_row(P, const View<T, 1>& row) {
  return row;
}

/// A row that is written and then read again.
template <class C = float, class P, class T>
TW_INLINE View<T, 1> new_row(P, const View<T, 1>& row) {
  return row;
}

/// to[c] = f(from[c] ...) for every column.
template <class C = float, class P, class T, class F, class... In>
TW_INLINE void map_row(P p, const View<T, 1>& to, F&& f, const View<In, 1>&... from) {
  for_row<C>(p, to.size(0), [&](auto at) { store(p, to, at, f(load(from, at)...)); });
}

/// v where the span has a column, `fill` in lanes past the end.
template <class P, class C, bool kFull, class V>
TW_INLINE V masked(const Span<P, C, kFull>& at, V v, C fill) {
  if constexpr (kFull)
    return v;
  else {
    V out = v;
    for (int i = 0; i < kLanesOf<V>; ++i) out[i] = i < at.count ? v[i] : fill;
    return out;
  }
}

/// The column numbers of a span's lanes, as integers as wide as C.
template <class I, class P, class C, bool kFull>
TW_INLINE auto columns(const Span<P, C, kFull>& at) {
  return iota<typename P::template Vec<I>>(I(at.offset));
}

/// Reduces f(span) over a row of n columns to one scalar. The order of operations depends on n
/// alone. An empty row gives the identity.
template <class C = float, class R, class P, class F>
TW_INLINE C reduce_row(P, R, int64_t n, F&& f) {
  using V = typename P::template Vec<C>;
  constexpr int kN = P::template kLanes<C>;
  const C identity = R::template identity<C>();
  V acc[4];
  for (V& a : acc) a = splat<V>(identity);
  int64_t c = 0;
  for (; c + 4 * kN <= n; c += 4 * kN) {
    TW_UNROLL
    for (int u = 0; u < 4; ++u) acc[u] = R::combine(acc[u], f(Span<P, C, true>{c + u * kN, kN}));
  }
  for (; c + kN <= n; c += kN) acc[0] = R::combine(acc[0], f(Span<P, C, true>{c, kN}));
  if (c < n) {
    const Span<P, C, false> tail{c, int(n - c)};
    acc[1] = R::combine(acc[1], masked(tail, V(f(tail)), identity));
  }
  const V all = R::combine(R::combine(acc[0], acc[1]), R::combine(acc[2], acc[3]));
  return fold_lanes(all, [](C a, C b) { return R::combine(a, b); });
}

template <class C = float, class R, class P, class T, class F>
TW_INLINE C reduce_row(P p, R r, const View<T, 1>& row, F&& f) {
  return reduce_row<C>(p, r, row.size(0), f);
}

}  // namespace tw::tile
