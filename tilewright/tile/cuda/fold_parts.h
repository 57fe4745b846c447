// Folds of columns of which a thread has some side by side, and all of their rows, or lanes of a
// warp share those (kernels' ColumnParts), on CUDA. Freestanding.
#pragma once

#include "tilewright/tile/cuda/folds.h"

namespace tw::tile {

namespace detail {

/// A thread's columns, and which of their rows.
template <class Parts>
struct PartSpan {
  static constexpr int kN = Parts::kN;
  int64_t part, column;
  int shares, slots, share, rows;  // a warp has `slots` spans
  bool is_there;

  template <class P>
  __device__ __forceinline__ PartSpan(P p, const Parts& parts) {
    const int bits = __ffs(parts.shares) - 1, lane = p.thread() % 32;
    const int64_t warp = p.index() * (p.threads() / 32) + p.thread() / 32;
    shares = parts.shares, slots = 32 >> bits, share = lane >> (5 - bits);
    const int64_t span = warp * slots + (lane & (slots - 1));
    part = index_quotient(span, parts.across);
    column = (span - part * parts.across) * kN;
    is_there = span < parts.spans;
    rows = is_there ? (parts.rows - share + shares - 1) >> bits : 0;
  }
  template <class T>
  __device__ __forceinline__ Turns<AlignedRow<T>> turns(const Rows<T>& of) const {
    T* const first = of.data + part * of.lead_strides[0] + column + share * of.col_stride;
    return {{first, {kN}}, of.col_stride * shares};
  }
  /// Whole, whatever the row.
  template <class C, class P>
  __device__ __forceinline__ auto at(P p) const {
    return span_at<C>(p, AlignedRow<typename Parts::Element>{nullptr, {kN}}, 0);
  }
  /// The columns' states of what threads know: in the first of the lanes that share them.
  template <class Fold, class P, class Running>
  __device__ __forceinline__ auto states(P p, const Fold& fold,
                                         const Pack<Running, kN>& known) const {
    Pack<typename Fold::State, kN> out;
    TW_UNROLL
    for (int i = 0; i < kN; ++i) {
      out[i] = fold.state(known[i], rows);
      combine_lanes(p, fold, slots, 32, out[i]);
    }
    return out;
  }
  /// In all of those.
  template <class Fold, class P, class Running>
  __device__ __forceinline__ auto states_for_all(P p, const Fold& fold,
                                                 const Pack<Running, kN>& known) const {
    auto out = states(p, fold, known);
    TW_UNROLL
    for (int i = 0; i < kN; ++i)  // combined the other way round, the bits may differ
      out[i] = shuffled(out[i], [&](uint32_t word) {
        return __shfl_sync(p.mask(), word, p.thread() & (slots - 1));
      });
    return out;
  }
};

/// Some of the rows that a thread keeps, from the first on.
template <int kAhead, int kKept, class Raw>
__device__ __forceinline__ SpansAhead<kAhead, Raw> some_of(const SpansAhead<kKept, Raw>& kept,
                                                           int first) {
  SpansAhead<kAhead, Raw> out;
  TW_UNROLL
  for (int a = 0; a < kAhead; ++a) out.of[a] = kept.of[first + a];
  return out;
}
/// f(kept rows ...) of operands.
template <int kKept, class At, class F, class... Row>
__device__ __forceinline__ void with_kept(int rows, const At& at, F&& f, Turns<Row>... turns) {
  f(spans_ahead<false, kKept>(turns, at, rows)...);
}
/// As fold_turns, of rows that are kept.
template <class C, int kN, class Fold, class F, int kKept, class... Raw>
__device__ __forceinline__ auto fold_kept(const Fold& fold, F&& term, int first, int shares,
                                          int rows, const SpansAhead<kKept, Raw>&... kept) {
  using Running = typename Fold::Running;
  constexpr int kMost = rows_to_fold<Running, Raw...>(true), kAhead = kMost < kKept ? kMost : kKept;
  Pack<Running, kN> known;
  TW_UNROLL
  for (int i = 0; i < kN; ++i) known[i] = fold.start();
  TW_UNROLL
  for (int seen = 0; seen < kKept; seen += kAhead) {
    if (seen >= rows) break;
    const int rest = rows - seen;
    const FoldedRows which{rest < kAhead ? rest : kAhead, first + seen * shares, shares, seen};
    fold_batch<C, kN, kAhead>(fold, term, which, known, some_of<kAhead>(kept, seen)...);
  }
  return known;
}

}  // namespace detail

/// put(row of the output, at, states) for each span of x's columns. The plan is over whole warps;
/// it needs no scratch.
template <class C, class Fold, class P, class Parts, class Put, class T>
__device__ __forceinline__ void fold_parts(P p, const Fold& fold, const Parts& parts, Put&& put,
                                           const Rows<T>& x) {
  const detail::PartSpan<Parts> here(p, parts);
  const auto itself = [](const auto& v) { return v; };
  const auto at = here.template at<C>(p);
  const auto known = detail::fold_turns<C, Parts::kN>(fold, itself, at, here.share, here.shares,
                                                      here.rows, here.turns(x));
  const auto states = here.states(p, fold, known);
  if (here.is_there && here.share == 0) put(here.part * parts.inner + here.column, at, states);
}

/// to[r, c] = f(known(c, state), from[r, c] ...), element by element: of the columns' folds of what
/// term makes of the operands' elements. The plan is fold_parts's.
template <class C, class Fold, class P, class Parts, class Term, class Known, class F, class To,
          class... From>
__device__ __forceinline__ void fold_and_map_parts(P p, const Fold& fold, const Parts& parts,
                                                   Term&& term, Known&& known, F&& f,
                                                   const Rows<To>& to, const Rows<From>&... from) {
  constexpr int kN = Parts::kN, kKept = rows_kept<P, C, To>(int(sizeof...(From)));
  const detail::PartSpan<Parts> here(p, parts);
  const auto at = here.template at<C>(p);
  const auto target = here.turns(to);
  const auto map = [&](const auto& running, auto&& map_rows) {
    const auto states = here.states_for_all(p, fold, running);
    if (!here.is_there) return;
    Pack<decltype(known(0, states[0])), kN> of;
    TW_UNROLL
    for (int i = 0; i < kN; ++i)
      of[i] = known(here.part * parts.inner + here.column + i, states[i]);
    map_rows(of);
  };
  const auto map_kept = [&](const auto&... kept) {
    map(detail::fold_kept<C, kN>(fold, term, here.share, here.shares, here.rows, kept...),
        [&](const auto& of) {
          auto rows = target;
          detail::map_batch<C, kN, kKept>(f, here.rows, of, rows, at, kept...);
        });
  };
  const auto map_again = [&](const auto&... turns) {
    map(detail::fold_turns<C, kN>(fold, term, at, here.share, here.shares, here.rows, turns...),
        [&](const auto& of) { detail::map_turns<C, kN>(f, of, at, here.rows, target, turns...); });
  };
  if (parts.keeps)
    detail::with_kept<kKept>(here.rows, at, map_kept, here.turns(from)...);
  else
    map_again(here.turns(from)...);
}

}  // namespace tw::tile
