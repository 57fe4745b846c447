// Row primitives on the CPU: what is done with a row's spans.
#pragma once

#include "tilewright/tile/cpu/running_sums.h"
#include "tilewright/tile/cpu/spans.h"
#include "tilewright/tile/reduction.h"

namespace tw::tile {

/// Begins to fetch a short row whose place nothing foretells.
template <class P, class T>
TW_INLINE void prefetch_random(P, const View<T, 1>& row) {
  if (row.stride(0) != 1) return;
  for (int64_t c = 0; c < row.size(0); c += kLineBytes / int64_t{sizeof(T)})
    prefetch_l2(row.data + c);
}
/// Begins to fetch a short row, where memory is what a kernel waits for.
template <class P, class T>
TW_INLINE void prefetch(P p, const View<T, 1>& row) {
  if (p.streaming()) prefetch_random(p, row);
}

/// What the program's threads wrote before, all of them see after. A CPU program is one thread.
template <class P>
TW_INLINE void sync(P) {}

/// A row that is read more than once. On a CPU it stays in cache by itself; elsewhere it is kept
/// near at hand, for which the plan needs kept_bytes of scratch for each; this is number `which`.
template <class C = float, class P, class Row>
TW_INLINE Row keep_row(P, const Row& row, int = 0) {
  return row;
}
/// The same, where scratch is for something else.
template <class C = float, class P, class Row>
TW_INLINE Row fetch_row(P, const Row& row) {
  return row;
}
/// A row that comes some time after this one. A CPU sees for itself that rows follow each other.
template <class P, class Row>
TW_INLINE void fetch_later(P, const Row&) {}
/// A row that is written and then read again: kept as keep_row does, and where the kept row of the
/// same number is no longer read.
template <class C = float, class P, class Row>
TW_INLINE Row new_row(P, const Row& row, int = 0) {
  return row;
}

/// Values that one loop over a row computes and a later one, of the same spans, wants again.
template <class C>
struct Memo {
  AdjacentRow<C> values;

  template <class At, class V>
  TW_INLINE void keep(const At& at, const V& v) const {
    if constexpr (detail::is_chains<V>) {
      TW_UNROLL
      for (int i = 0; i < at.kLanes / kLanesOf<typename V::Part>; ++i)
        keep(at.vector(i), v.part[i]);
    } else {
      store_cached(values, at, v);
    }
  }
  template <class At, class F>
  TW_INLINE auto recall(const At& at, F&& f) const {
    using V = decltype(f(at));
    if constexpr (detail::is_chains<V>) {
      V out;
      TW_UNROLL
      for (int i = 0; i < at.kLanes / kLanesOf<typename V::Part>; ++i)
        out.part[i] = load(values, at.vector(i));
      return out;
    } else {
      return load(values, at);
    }
  }
};
/// Memo number `which` of rows of n columns.
template <class C, class P>
TW_INLINE Memo<C> memo(P p, int64_t n, int which) {
  return {{p.template scratch<C>() + which * n, n}};
}

/// to[c] = f(from[c] ...) for every column.
template <class C = float, class P, class To, class F, class... From>
TW_INLINE void map_row(P p, const To& to, F&& f, const From&... from) {
  for_row<C>(p, to, [&](auto at) { store(p, to, at, f(load(from, at)...)); });
}
/// first[c] and second[c] = both members of f(from[c] ...).
template <class C = float, int kChains = 1, class P, class To, class F, class... From>
TW_INLINE void map_to_two(P p, const To& first, const To& second, F&& f, const From&... from) {
  for_row<C, kChains>(p, first, [&](auto at) TW_INLINED {
    (prefetch_ahead(p, from, at), ...);
    const auto two = f(load(from, at)...);
    store(p, second, at, two.second);
    store(p, first, at, two.first);
  });
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

/// The column numbers of a span's lanes, as numbers I as wide as C.
template <class I, class P, class C, bool kFull>
TW_INLINE auto columns(const Span<P, C, kFull>& at) {
  return iota<typename P::template Vec<I>>(I(at.offset));
}

/// A LooseRow is reduced in a loop of little code, in the order of an adjacent one, whose elements
/// may come in pairs (Chains).
enum class Walk { kUnrolled, kRolled, kRolledPairs };

/// Reduces f(span) over a row of n columns to one scalar. The order of operations depends on n
/// alone. Blocks of the row are reduced by themselves and then combined, so that the error of a sum
/// grows with the block and hardly with the row. An empty row gives the identity.
template <class C = float, int kChains = 1, Walk kWalk = Walk::kUnrolled, Reduction R, class P,
          class F>
TW_INLINE C reduce_row(P, R, int64_t n, F&& f) {
  using V = typename P::template Vec<C>;
  constexpr int kN = P::template kLanes<C>;
  constexpr int64_t kBlock = 4096;
  static_assert(kBlock % (4 * kN) == 0);
  const C identity = R::template identity<C>();
  V total = splat<V>(identity), acc[4];
  for (V& a : acc) a = total;
  const auto combine_all = [&] {
    return R::combine(R::combine(acc[0], acc[1]), R::combine(acc[2], acc[3]));
  };
  int64_t c = 0;
  while (c + 4 * kN <= n) {
    if (c > 0) {
      total = R::combine(total, combine_all());
      for (V& a : acc) a = splat<V>(identity);
    }
    const int64_t end = n - c < kBlock ? n - 4 * kN : c + kBlock - 4 * kN;
    for (; c <= end; c += 4 * kN) {
      if constexpr (kWalk != Walk::kUnrolled) {
        V value[4];
        TW_ROLLED
        for (int u = 0; u < 4; ++u) value[u] = f(Span<P, C, true>{c + u * kN, kN});
        if constexpr (kWalk == Walk::kRolledPairs)
          for (int u = 0; u < 4; u += 2) detail::split_pairs(value[u], value[u + 1]);
        for (int u = 0; u < 4; ++u) acc[u] = R::combine(acc[u], value[u]);
      } else {
        TW_UNROLL
        for (int u = 0; u < 4; u += kChains) {
          const auto value = f(Span<P, C, true, kChains>{c + u * kN, kChains * kN});
          if constexpr (kChains == 1) {
            acc[u] = R::combine(acc[u], value);
          } else {
            TW_UNROLL
            for (int i = 0; i < kChains; ++i) acc[u + i] = R::combine(acc[u + i], value.part[i]);
          }
        }
      }
    }
  }
  for (; c + kN <= n; c += kN) acc[0] = R::combine(acc[0], f(Span<P, C, true>{c, kN}));
  if (c < n) {
    const Span<P, C, false> tail{c, int(n - c)};
    acc[1] = R::combine(acc[1], masked(tail, V(f(tail)), identity));
  }
  return fold_lanes(R::combine(total, combine_all()),
                    [](auto a, auto b) TW_INLINED { return R::combine(a, b); });
}

template <class C = float, int kChains = 1, Reduction R, class P, class T, class F>
TW_INLINE C reduce_row(P p, R r, const View<T, 1>& row, F&& f) {
  return reduce_row<C, kChains>(p, r, row.size(0), f);
}
template <class C = float, int kChains = 1, Reduction R, class P, class T, class F>
TW_INLINE C reduce_row(P p, R r, const AdjacentRow<T>& row, F&& f) {
  return reduce_row<C, kChains>(p, r, row.count, f);
}
template <class C = float, int kChains = 1, Reduction R, class P, class T, class F>
TW_INLINE C reduce_row(P p, R r, const LooseRow<T>& row, F&& f) {
  constexpr bool kPairs = kChains > 1 && same_type<std::remove_const_t<T>, bf16>;
  return reduce_row<C, 1, kPairs ? Walk::kRolledPairs : Walk::kRolled>(p, r, row.size(0), f);
}

/// The reduction of a row's elements, which are read once.
template <class C = float, Reduction R, class P, class Row>
TW_INLINE C reduce_elements(P p, R r, const Row& row) {
  return reduce_row<C, 4>(p, r, row, [&](auto at) TW_INLINED { return load(row, at); });
}

/// The first column of a row, which has it, that holds `value`; NaN for NaN. Rows are short: their
/// columns are exact as C.
template <class C = float, class P, class Row>
TW_INLINE int64_t find_first(P p, const Row& row, C value) {
  return int64_t(reduce_row<C>(p, Min{}, row, [&](auto at) {
    using V = decltype(load(row, at));
    const V v = load(row, at);
    const V column = columns<C>(at);
    const V none = splat<V>(C(row.size(0)));
    return value == value ? select(v == value, column, none) : select(v != v, column, none);
  }));
}

/// On a CPU indices are checked before a call.
template <class P>
TW_INLINE void require_index(P, int64_t, int64_t) {}

/// Two sums over a row in one pass: f(span) gives both members. The order of operations depends on
/// the length alone.
template <class C = float, class P, class Row, class F>
TW_INLINE Two<C> sum_two(P, const Row& row, F&& f) {
  using V = typename P::template Vec<C>;
  constexpr int64_t kBlock = 4096;  // summed by itself, so that the error hardly grows with n
  constexpr int kN = P::template kLanes<C>, kSums = 4;  // additions that wait for none before
  const int64_t n = row.size(0);
  Two<V> total{};
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    Two<V> sums[kSums] = {};
    const int64_t end = n - begin < kBlock ? n : begin + kBlock;
    const auto add_span = [&](Two<V>& sum, const auto& at) TW_INLINED {
      const auto two = f(at);
      sum.first += masked(at, two.first, C(0));
      sum.second += masked(at, two.second, C(0));
    };
    int64_t c = begin;
    for (; c + kSums * kN <= end; c += kSums * kN) {
      if constexpr (requires { Row::kLoose; }) {
        TW_ROLLED
        for (int i = 0; i < kSums; ++i) add_span(sums[i], Span<P, C, true>{c + i * kN, kN});
      } else {
        TW_UNROLL
        for (int i = 0; i < kSums; ++i) add_span(sums[i], Span<P, C, true>{c + i * kN, kN});
      }
    }
    for (; c + kN <= end; c += kN) add_span(sums[0], Span<P, C, true>{c, kN});
    if (c < end) add_span(sums[1], Span<P, C, false>{c, int(end - c)});
    total.first += (sums[0].first + sums[1].first) + (sums[2].first + sums[3].first);
    total.second += (sums[0].second + sums[1].second) + (sums[2].second + sums[3].second);
  }
  const auto add = [](auto a, auto b) TW_INLINED { return a + b; };
  return {fold_lanes(total.first, add), fold_lanes(total.second, add)};
}

}  // namespace tw::tile
