// Folds of columns on CUDA, by threads that share the rows, as sums.h adds them up; and of rows, by
// threads that share the columns. The order in which states are combined depends on shapes alone.
// Freestanding.
#pragma once

#include "tilewright/tile/cuda/primitives.h"

namespace tw::tile {

namespace detail {

/// The states of n columns, `count` of each, load(i, column), by threads that share them.
template <class Fold, class P, class Load, class Put>
__device__ __forceinline__ void fold_shares(P p, const Fold& fold, int n, int count, Load&& load,
                                            typename Fold::State* shared, Put&& put) {
  const int bits = 32 - __clz(n - 1), across = 1 << bits;
  const int shares = p.threads() >> bits, column = p.thread() & (across - 1);
  typename Fold::State state = fold.state(fold.start(), 0);
  if (column < n) {
    TW_UNROLL_4
    for (int i = p.thread() >> bits; i < count; i += shares) fold.combine(state, load(i, column));
  }
  shared[p.thread()] = state;
  p.sync();
  if (p.thread() >= n) return;
  TW_ROLLED
  for (int t = p.thread() + across; t < p.threads(); t += across) fold.combine(state, shared[t]);
  put(p.thread(), state);
}

/// How threads share `count` rows of n columns: some side by side have a row, others the next one.
template <int kN>
struct SharedRows {
  int across, shares, share, column;
  int rows;  // of the thread
  template <class P>
  __device__ __forceinline__ SharedRows(P p, int n, int64_t count) {
    const int bits = 32 - __clz((n - 1) / kN);
    across = 1 << bits, shares = p.threads() >> bits, share = p.thread() >> bits;
    column = (p.thread() & (across - 1)) * kN;
    rows = column < n ? (int(count) - share + shares - 1) / shares : 0;
  }
};
/// The rows of an operand that a thread has, one after the other.
template <class Row>
struct Turns {
  Row row;
  int64_t step;
};
template <int kN, class Row>
__device__ __forceinline__ Turns<Row> turns_of(Row row, int64_t stride, const SharedRows<kN>& by) {
  row.data += by.share * stride;
  return {row, stride * by.shares};
}
/// f(by, at, turns ...) of how the threads share the rows, which lie as all operands do. A common
/// divisor of strides that is a power of two is their bits'.
template <class C, class P, class F, class T, class... Rest>
__device__ __forceinline__ void with_turns(P p, int64_t count, F&& f, const RowsApart<T>& any,
                                           const RowsApart<Rest>&... rest) {
  const int n = int(any.first.size(0));
  const SharedRows<P::template kLanes<C>> by(p, n, count);
  const View<T, 1> probe = view(any.first.data + (any.stride | ... | rest.stride), n);
  const auto run = [&](const auto&, const auto& row, const auto&... rows) {
    f(by, span_at<C>(p, row, by.column), turns_of(row, any.stride, by),
      turns_of(rows, rest.stride, by)...);
  };
  with_rows<C>(p, run, probe, any.first, rest.first...);
}
/// Some rows' spans, as they lie: the first `count` of them, or, if kIsWhole, all.
template <int kAhead, class Raw>
struct SpansAhead {
  Raw of[kAhead];
};
template <bool kIsWhole, int kAhead, class Row, class At>
__device__ __forceinline__ auto spans_ahead(Turns<Row>& from, const At& at, int count) {
  SpansAhead<kAhead, decltype(load_raw(from.row, at))> out = {};
  TW_UNROLL
  for (int a = 0; a < kAhead; ++a, from.row.data += from.step)
    if (kIsWhole || a < count) out.of[a] = load_raw(from.row, at);
  return out;
}

/// Rows that a thread reads before it folds the first of them: as many as registers have room for
/// beside the states.
template <class State, class... Raw>
TW_DEVICE constexpr int rows_to_fold(bool is_full) {
  const int one = (... || (sizeof(Raw) > 16)) || sizeof(State) > 8 ? 2 : sizeof(State) > 4 ? 4 : 8;
  return !is_full ? 1 : sizeof...(Raw) > 1 ? one / 2 : one;
}
template <bool kWhole>
struct Whole {
  static constexpr bool kIs = kWhole;
};
/// Folds rows' spans into what is known of their columns.
template <class C, int kN, int kAhead, class Fold, class F, class Known, class... Ahead>
__device__ __forceinline__ void fold_batch(const Fold& fold, F&& term, const FoldedRows& which,
                                           Known& known, const Ahead&... ahead) {
  Pack<C, kN> values[kAhead];
  TW_UNROLL
  for (int a = 0; a < kAhead; ++a) values[a] = term(ahead.of[a].template widen<C>()...);
  TW_UNROLL
  for (int i = 0; i < kN; ++i) {
    C column[kAhead];
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) column[a] = values[a][i];
    fold.add(known[i], column, which);
  }
}
/// What is known of the columns at `at` after a thread's rows. Of those each is `shares` behind the
/// one before; `first` is the first one's number.
template <class C, int kN, class Fold, class F, class At, class... Row>
__device__ __forceinline__ auto fold_turns(const Fold& fold, F&& term, const At& at, int first,
                                           int shares, int rows, Turns<Row>... turns) {
  using Running = typename Fold::Running;
  constexpr bool kIsFull = (... && is_whole<Row>);
  constexpr int kAhead = rows_to_fold<Running, decltype(load_raw(turns.row, at))...>(kIsFull);
  Pack<Running, kN> known;
  TW_UNROLL
  for (int i = 0; i < kN; ++i) known[i] = fold.start();
  const auto fold_some = [&](auto whole, int some, int seen) {
    const FoldedRows which{some, first + seen * shares, shares, seen};
    fold_batch<C, kN, kAhead>(fold, term, which, known,
                              spans_ahead<decltype(whole)::kIs, kAhead>(turns, at, some)...);
  };
  int seen = 0;
  TW_ROLLED
  for (; seen + kAhead <= rows; seen += kAhead) fold_some(Whole<true>{}, kAhead, seen);
  if (seen < rows) fold_some(Whole<false>{}, rows - seen, seen);
  return known;
}
/// Writes f of what is known of the columns and of rows' spans.
template <class C, int kN, int kAhead, class F, class Known, class Target, class At, class... Ahead>
__device__ __forceinline__ void map_batch(F&& f, int count, const Known& known, Target& target,
                                          const At& at, const Ahead&... ahead) {
  TW_UNROLL
  for (int a = 0; a < kAhead; ++a, target.row.data += target.step) {
    if (a >= count) return;
    const auto put = [&](const auto&... v) {
      Pack<C, kN> out;
      TW_UNROLL
      for (int i = 0; i < kN; ++i) out[i] = f(known[i], v[i]...);
      store_cached(target.row, at, out);
    };
    put(ahead.of[a].template widen<C>()...);
  }
}

/// The same of all of a thread's rows.
template <class C, int kN, class F, class Known, class At, class To, class... Row>
__device__ __forceinline__ void map_turns(F&& f, const Known& known, const At& at, int rows,
                                          Turns<To> target, Turns<Row>... turns) {
  constexpr bool kIsLarge = (... || (sizeof(load_raw(turns.row, at)) > 16));
  constexpr int kMost = sizeof...(Row) == 0 ? 2 : (kIsLarge ? 2 : 4) / int(sizeof...(Row));
  constexpr int kAhead = is_whole<To> ? kMost : 1;
  const auto map_some = [&](auto whole, int some) {
    map_batch<C, kN, kAhead>(f, some, known, target, at,
                             spans_ahead<decltype(whole)::kIs, kAhead>(turns, at, some)...);
  };
  int seen = 0;
  TW_ROLLED
  for (; seen + kAhead <= rows; seen += kAhead) map_some(Whole<true>{}, kAhead);
  if (seen < rows) map_some(Whole<false>{}, rows - seen);
}

}  // namespace detail

/// put(column, state) for the columns of `count` rows, of which the first has the number `first`:
/// of what term makes of the operands' elements. The plan's scratch is fold_scratch; there are as
/// many columns as threads at most. What the threads of different rows know is combined.
template <class C, class Fold, class P, class Put, class F, class T, class... Rest>
__device__ __forceinline__ void fold_rows(P p, const Fold& fold, int64_t first, int64_t count,
                                          Put&& put, F&& term, const RowsApart<T>& operand,
                                          const RowsApart<Rest>&... rest) {
  using State = typename Fold::State;
  constexpr int kN = P::template kLanes<C>;
  const int pitch = fold_pitch(p.threads());
  State* const shared = p.template scratch<State>();
  const auto fold_all = [&](const detail::SharedRows<kN>& by, const auto& at, auto... turns) {
    const auto known = detail::fold_turns<C, kN>(fold, term, at, int(first) + by.share, by.shares,
                                                 by.rows, turns...);
    TW_UNROLL
    for (int i = 0; i < kN; ++i) shared[i * pitch + p.thread()] = fold.state(known[i], by.rows);
  };
  detail::with_turns<C>(p, count, fold_all, operand, rest...);
  p.sync();
  const int n = int(operand.first.size(0));
  const detail::SharedRows<kN> by(p, n, count);
  const auto load = [&](int i, int c) { return shared[c % kN * pitch + i * by.across + c / kN]; };
  detail::fold_shares(p, fold, n, by.shares, load, shared + kN * pitch, put);
}

/// The same of `count` rows of states, `stride` apart, of n columns.
template <class Fold, class P, class Put>
__device__ __forceinline__ void fold_states(P p, const Fold& fold,
                                            const typename Fold::State* states, int64_t stride,
                                            int n, int64_t count, Put&& put) {
  const auto load = [&](int i, int c) { return states[i * stride + c]; };
  detail::fold_shares(p, fold, n, int(count), load, p.template scratch<typename Fold::State>(),
                      put);
}

/// to[r, c] = f(known(c), from[r, c] ...) of `count` rows, element by element. The plan is
/// fold_rows's; it needs no scratch.
template <class C, class P, class Known, class F, class To, class... From>
__device__ __forceinline__ void map_columns(P p, Known&& known, int64_t count, F&& f,
                                            const RowsApart<To>& to,
                                            const RowsApart<From>&... from) {
  constexpr int kN = P::template kLanes<C>;
  const auto map_all = [&](const detail::SharedRows<kN>& by, const auto& at, auto target,
                           auto... turns) {
    if (by.rows <= 0) return;
    Pack<decltype(known(0)), kN> of;
    TW_UNROLL
    for (int i = 0; i < kN; ++i) of[i] = known(by.column + (i < at.count ? i : 0));
    detail::map_turns<C, kN>(f, of, at, by.rows, target, turns...);
  };
  detail::with_turns<C>(p, count, map_all, to, from...);
}

namespace detail {

/// What another thread of the warp has: shuffle(word) tells a word of it.
template <class V, class F>
__device__ __forceinline__ V shuffled(const V& value, F&& shuffle) {
  static_assert(sizeof(V) % sizeof(uint32_t) == 0);
  constexpr int kWords = int(sizeof(V) / sizeof(uint32_t));
  uint32_t words[kWords];
  __builtin_memcpy(words, &value, sizeof(V));
  TW_UNROLL
  for (int i = 0; i < kWords; ++i) words[i] = shuffle(words[i]);
  V out;
  __builtin_memcpy(&out, words, sizeof(V));
  return out;
}
/// Combines what lanes know that are `first` or a power of two times as many apart, less than
/// `past`.
template <class Fold, class P, class State>
__device__ __forceinline__ void combine_lanes(P p, const Fold& fold, int first, int past,
                                              State& state) {
  TW_ROLLED
  for (int lane = first; lane < past; lane *= 2)
    fold.combine(state, shuffled(state, [&](uint32_t word) {
                   return __shfl_xor_sync(p.mask(), word, lane);
                 }));
}
/// The threads' states, the same in every thread. A plan over 4096 columns at most has as few warps
/// as have room for theirs.
template <class Fold, class P>
__device__ __forceinline__ typename Fold::State combine_threads(P p, const Fold& fold,
                                                                typename Fold::State state) {
  using State = typename Fold::State;
  static_assert(4 * sizeof(State) <= 32 * sizeof(double));
  const int threads = p.threads(), lanes = threads < 32 ? threads : 32;
  combine_lanes(p, fold, 1, lanes, state);
  if (threads <= 32)  // combined the other way round, the bits may differ
    return shuffled(state, [&](uint32_t word) { return __shfl_sync(p.mask(), word, 0, lanes); });
  State* const shared = reinterpret_cast<State*>(p.shared_);
  if (p.thread() % 32 == 0) shared[p.thread() / 32] = state;
  p.sync();
  state = shared[0];
  TW_ROLLED
  for (int w = 1; w < threads / 32; ++w) fold.combine(state, shared[w]);
  return state;
}

/// What a thread knows of a row.
template <class C, class Fold>
struct SeenColumns {
  const Fold& fold;
  typename Fold::Running known;
  int seen;

  /// `count` elements of some spans.
  template <int kSpans, class R>
  __device__ __forceinline__ void add(const R* spans, int count) {
    constexpr int kN = kLanesOf<decltype(spans[0].template widen<C>())>;
    C v[kSpans * kN];
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) {
      const auto lanes = spans[s].template widen<C>();
      TW_UNROLL
      for (int i = 0; i < kN; ++i) v[s * kN + i] = lanes[i];
    }
    fold.add(known, v, FoldedRows{count, 0, 0, seen});
    seen += count;
  }
};
/// The thread's spans of adjacent elements from column `head`, where a word begins, on, as far as
/// they are whole: several are on their way before the first is used.
template <class C, class P, class T, class Seen>
__device__ __forceinline__ void fold_spans(P p, const T* data, int head, int64_t n, Seen& seen) {
  using R = RawOf<P, C, T>;
  constexpr int kN = P::template kLanes<C>, kAhead = kSpansAhead<R>;
  const int64_t step = int64_t{p.threads()} * kN;
  int64_t c = head + int64_t{p.thread()} * kN;
  TW_ROLLED
  for (; c + (kAhead - 1) * step + kN <= n; c += kAhead * step) {
    R spans[kAhead];
    TW_UNROLL
    for (int i = 0; i < kAhead; ++i) spans[i] = R::load(data + c + i * step);
    TW_UNROLL
    for (int i = 0; i < kAhead; i += 2) seen.template add<2>(spans + i, 2 * kN);
  }
  TW_ROLLED
  for (; c + kN <= n; c += step) {
    const R one = R::load(data + c);
    seen.template add<1>(&one, kN);
  }
}
template <class C, class P, class T, class Seen>
__device__ __forceinline__ void fold_spans(P p, const AlignedRow<T>& row, Seen& seen) {
  fold_spans<C>(p, row.data, 0, row.size(0), seen);
}
/// Of a row alone, which with_rows hands out with its phase, all but the ends are words.
template <class C, class P, class T, class Seen>
__device__ __forceinline__ void fold_spans(P p, const AdjacentRow<T>& row, Seen& seen) {
  const int head = head_of<P::template kLanes<C>>(row);
  fold_spans<C>(p, row.data, head, row.size(0), seen);
  for_ends<C>(p, row, head, [&](const auto& at) {
    const auto one = load_raw(row, at);
    seen.template add<1>(&one, at.count);
  });
}
template <class C, class P, class T, class Seen>
__device__ __forceinline__ void fold_spans(P p, const View<T, 1>& row, Seen& seen) {
  for_row<C>(p, row, [&](const auto& at) {
    const auto one = load_raw(row, at);
    seen.template add<1>(&one, at.count);
  });
}

}  // namespace detail

/// The fold of a row's elements, which are read once, in every thread. The plan is over 4096
/// columns at most. One fold of a program's: the next one would write what threads still read.
template <class C, class Fold, class P, class Row>
__device__ __forceinline__ typename Fold::State fold_row(P p, const Fold& fold, const Row& row) {
  detail::SeenColumns<C, Fold> seen{fold, fold.start(), 0};
  detail::fold_spans<C>(p, row, seen);
  return detail::combine_threads(p, fold, fold.state(seen.known, seen.seen));
}
/// The same of a list of states.
template <class Fold, class P>
__device__ __forceinline__ typename Fold::State fold_list(P p, const Fold& fold,
                                                          const typename Fold::State* states,
                                                          int64_t count) {
  typename Fold::State state = fold.state(fold.start(), 0);
  TW_ROLLED
  for (int64_t i = p.thread(); i < count; i += p.threads()) fold.combine(state, states[i]);
  return detail::combine_threads(p, fold, state);
}

}  // namespace tw::tile
