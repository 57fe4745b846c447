// Folds of columns on CUDA, by threads that share the rows, as sums.h adds them up. The order in
// which states are combined depends on shapes alone. Freestanding.
#pragma once

#include "tilewright/tile/cuda/rows.h"

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

/// Rows that a thread reads before it folds the first of them: as many as registers have room for
/// beside the states.
template <class Raw, class State>
TW_DEVICE constexpr int rows_to_fold(bool is_full) {
  return !is_full ? 1 : sizeof(Raw) > 16 || sizeof(State) > 8 ? 2 : sizeof(State) > 4 ? 4 : 8;
}

template <bool kWhole>
struct Whole {
  static constexpr bool kIs = kWhole;
};
/// Folds rows, `all` elements apart, that begin with `row`, into what is known of a span's columns.
template <bool kIsWhole, int kAhead, class C, class Fold, class Row, class At, class Known>
__device__ __forceinline__ void fold_batch(const Fold& fold, Row& row, const At& at, int64_t all,
                                           const FoldedRows& which, Known& known) {
  decltype(load_raw(row, at)) ahead[kAhead] = {};
  TW_UNROLL
  for (int a = 0; a < kAhead; ++a, row.data += all)
    if (kIsWhole || a < which.count) ahead[a] = load_raw(row, at);
  using Values = decltype(ahead[0].template widen<C>());
  Values values[kAhead];
  TW_UNROLL
  for (int a = 0; a < kAhead; ++a) values[a] = ahead[a].template widen<C>();
  TW_UNROLL
  for (int i = 0; i < kLanesOf<Values>; ++i) {
    C column[kAhead];
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) column[a] = values[a][i];
    fold.add(known[i], column, which);
  }
}

}  // namespace detail

/// put(column, state) for the columns of `count` rows, `stride` apart, of which the first is
/// `begin` and has the number `first`. The plan is over kSumColumns, its scratch kFoldStates; there
/// are as many columns as threads at most. Some threads side by side have a row, others the next
/// one; then they combine what they know.
template <class C, class Fold, class P, class Row, class Put>
__device__ __forceinline__ void fold_rows(P p, const Fold& fold, const Row& begin, int64_t stride,
                                          int64_t first, int64_t count, Put&& put) {
  using State = typename Fold::State;
  constexpr int kN = P::template kLanes<C>;
  Row row = begin;
  const int n = int(row.size(0)), bits = 32 - __clz((n - 1) / kN), across = 1 << bits;
  const int shares = p.threads() >> bits, share = p.thread() >> bits;
  const int column = (p.thread() & (across - 1)) * kN;
  const int rows = column < n ? (int(count) - share + shares - 1) / shares : 0;
  const auto at = span_at<C>(p, row, column);
  constexpr int kAhead = detail::rows_to_fold<decltype(load_raw(row, at)), State>(is_whole<Row>);
  Pack<typename Fold::Running, kN> known;
  TW_UNROLL
  for (int i = 0; i < kN; ++i) known[i] = fold.start();
  row.data += share * stride;
  const auto fold_some = [&](auto whole, int some, int seen) {
    const FoldedRows which{some, int(first) + share + seen * shares, shares, seen};
    detail::fold_batch<decltype(whole)::kIs, kAhead, C>(fold, row, at, stride * shares, which,
                                                        known);
  };
  int seen = 0;
  TW_ROLLED
  for (; seen + kAhead <= rows; seen += kAhead) fold_some(detail::Whole<true>{}, kAhead, seen);
  if (seen < rows) fold_some(detail::Whole<false>{}, rows - seen, seen);
  State* const shared = p.template scratch<State>();
  constexpr int kPitch = kFoldPitch<P>;
  TW_UNROLL
  for (int i = 0; i < kN; ++i) shared[i * kPitch + p.thread()] = fold.state(known[i], rows);
  p.sync();
  const auto load = [&](int i, int c) { return shared[c % kN * kPitch + i * across + c / kN]; };
  detail::fold_shares(p, fold, n, shares, load, shared + kN * kPitch, put);
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

}  // namespace tw::tile
