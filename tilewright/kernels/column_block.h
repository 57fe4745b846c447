// Columns to reduce that lie side by side in memory, on a CPU: a program has a block of them, and
// walks the rows that they share, a vector of columns at once.
#pragma once

#include "tilewright/kernels/column_sums.h"
#include "tilewright/tile/math.h"

namespace tw::kernels {

template <class P, class T>
struct ColumnBlock {
  using Element = T;
  using C = tile::compute_t<T>;
  static constexpr int64_t kMost = 256;      // columns
  static constexpr int64_t kTogether = 128;  // rows whose sum is one number of a sum
  using Totals = C[kMost];                   // of its columns
  /// Up to which C has all whole numbers.
  static constexpr int64_t kMostRows = int64_t{1} << (sizeof(C) == 4 ? 24 : 53);

  /// Columns of x are rows in the others' sense: x has the dimension to reduce last.
  const Rows<const T>& x;
  int64_t first, count;  // of them

  TW_INLINE static bool takes(const Rows<const T>& x) {
    return !P::kOnGpu && ColumnSums<P, T>::takes(x);
  }
  /// And those of other operands of its shape.
  template <class... Rest>
  TW_INLINE static bool takes(const Rows<const T>& x, const Rows<Rest>&... rest) {
    return takes(x) && (... && are_beside(x, rest));
  }
  TW_INLINE static int64_t inner(const Rows<const T>& x) { return x.lead_sizes[x.lead - 1]; }
  TW_INLINE static int64_t blocks(const Rows<const T>& x) { return (inner(x) + kMost - 1) / kMost; }
  /// Whether those of another operand lie side by side, too.
  template <class U>
  TW_INLINE static bool are_beside(const Rows<const T>& x, const Rows<U>& of) {
    const int last = of.lead - 1;
    return of.lead_strides[last] == 1 && of.lead_sizes[last] == inner(x);
  }
  /// Whether columns of x, and of an output of its shape, lie side by side: on a GPU, too.
  TW_INLINE static bool are_beside_in_both(const Rows<const T>& x, const Rows<T>& out) {
    return ColumnSums<P, T>::takes(x) && are_beside(x, out);
  }
  TW_INLINE static tile::Plan plan(const Rows<const T>& x) {
    return tile::plan_of(x.rows / inner(x) * blocks(x));
  }

  TW_INLINE ColumnBlock(P p, const Rows<const T>& from) : x(from) {
    const int64_t begin = p.index() % blocks(x) * kMost, rest = inner(x) - begin;
    first = p.index() / blocks(x) * inner(x) + begin;
    count = rest < kMost ? rest : kMost;
  }

#if !defined(__CUDACC__)
  /// Their elements in row c of x, or of an output.
  template <class U>
  TW_INLINE tile::AdjacentRow<U> row(const Rows<U>& of, int64_t c) const {
    return {of.row(first).data + c * of.col_stride, count};
  }
  TW_INLINE tile::AdjacentRow<C> row(C* totals) const { return {totals, count}; }

  /// An output's elements.
  template <class Out>
  TW_INLINE void put(const Rows<Out>& out, const Totals& values) const {
    for (int64_t i = 0; i < count; ++i) out(first + i, 0) = Out(values[i]);
  }

  /// totals: the reduction of f(vector ..., span) of the elements of x and of other operands.
  template <tile::Reduction R, class F, class... Rest>
  TW_INLINE void reduce(P p, R, Totals& totals, F&& f, const Rows<Rest>&... rest) const {
    for (C& total : totals) total = R::template identity<C>();
    for (int64_t begin = 0; begin < x.cols; begin += kTogether) {
      alignas(64) Totals some;
      for (C& total : some) total = R::template identity<C>();
      const int64_t end = begin + kTogether < x.cols ? begin + kTogether : x.cols;
      for (int64_t c = begin; c < end; ++c) add<R>(p, some, f, row(x, c), row(rest, c)...);
      add<R>(p, totals, [](auto v, auto) { return v; }, row(some));
    }
  }

  /// The largest of each column, of which NaN is one, and the first row that it is in.
  TW_INLINE void find_largest(P p, Totals& largest, Totals& rows) const {
    for (C& value : largest) value = tile::Max::identity<C>();
    for (C& at : rows) at = C(0);
    const auto values = row(largest), places = row(rows);
    for (int64_t c = 0; c < x.cols; ++c) {
      const auto from = row(x, c);
      tile::for_row<C>(p, count, [&](auto at) TW_INLINED {
        const auto v = tile::load(from, at), known = tile::load(values, at);
        const auto place = tile::load(places, at);
        using V = decltype(v + v);
        const auto keep = [&](V old, V next) TW_INLINED {
          return tile::select(known != known, old, tile::select(v <= known, old, next));
        };
        tile::store_cached(values, at, keep(known, v));
        tile::store_cached(places, at, keep(place, tile::splat<V>(C(c))));
      });
    }
  }

  /// out: f(vector ..., span) of the elements. Bits do not depend on how out lies.
  template <class F, class... Rest>
  TW_INLINE void map(P p, const Rows<T>& out, F&& f, const Rows<Rest>&... rest) const {
    const bool is_beside = are_beside(x, out);
    alignas(64) Totals results;
    for (int64_t c = 0; c < x.cols; ++c) {
      const auto map_to = [&](const auto& to)
                              TW_INLINED { map_row(p, to, f, row(x, c), row(rest, c)...); };
      if (is_beside) {
        map_to(row(out, c));
        continue;
      }
      map_to(row(results));
      for (int64_t i = 0; i < count; ++i) out(first + i, c) = T(results[i]);
    }
  }

 private:
  template <class To, class F, class... From>
  TW_INLINE void map_row(P p, const To& to, F&& f, const From&... from) const {
    tile::for_row<C>(p, count, [&](auto at) TW_INLINED {
      tile::store_cached(to, at, f(tile::load(from, at)..., at));
    });
  }
  template <class R, class F, class... From>
  TW_INLINE void add(P p, Totals& totals, F&& f, const From&... from) const {
    const tile::AdjacentRow<C> to = row(totals);
    tile::for_row<C>(p, count, [&](auto at) TW_INLINED {
      const auto v = f(tile::load(from, at)..., at);
      tile::store_cached(to, at, R::combine(tile::load(to, at), v));
    });
  }
#endif
};

#if !defined(__CUDACC__)
/// Of exponentials: their largest arguments, from which they are counted, and their sums.
template <class P, class T>
struct ColumnExponentials {
  using Block = ColumnBlock<P, T>;
  using C = typename Block::C;
  alignas(64) typename Block::Totals high, total;

  TW_INLINE ColumnExponentials(P p, const Block& block) {
    block.reduce(p, tile::Max{}, high, [](auto v, auto) { return v; });
    const auto highs = block.row(high);
    block.reduce(p, tile::Sum{}, total,
                 [&](auto v, auto at) TW_INLINED { return weight(v, tile::load(highs, at)); });
  }
  /// -inf - -inf would be NaN.
  template <class V>
  TW_INLINE static V weight(V v, V high) {
    const V base = tile::select(high == tile::splat<V>(C(-__builtin_inf())), V{}, high);
    return tile::exp_nonpositive(v - base);
  }
};
#endif

}  // namespace tw::kernels
