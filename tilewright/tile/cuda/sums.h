// Sums of columns on CUDA: in registers, as the kept rows of spread programs are; or by threads
// that share the rows. Freestanding.
#pragma once

#include "tilewright/tile/cuda/kept_rows.h"

namespace tw::tile {

/// Row: an AlignedRow or an AdjacentRow.
template <class P, class Row>
struct HeldSums {
  static_assert(P::kSpans > 0, "other programs' registers may not hold the whole row");
  using V = typename P::template Vec<float>;
  Row row;
  V slots[P::kSpans];
};

/// Sums, zeros as yet, that end in `row`: put_sums brings them there. They are added to at the
/// spans of rows of a spread program.
template <class P, class Row>
__device__ __forceinline__ HeldSums<P, Row> hold_sums(P, const Row& row) {
  using V = typename HeldSums<P, Row>::V;
  HeldSums<P, Row> out;
  out.row = row;
  TW_UNROLL
  for (V& slot : out.slots) slot = splat<V>(0.0f);
  return out;
}
template <class P>
__device__ __forceinline__ View<float, 1> hold_sums(P p, const View<float, 1>& row) {
  if (row.data != nullptr)
    for_row(p, row,
            [&](const auto& at) { store_cached(row, at, typename P::template Vec<float>{}); });
  return row;
}

template <class P, bool kFull, class V>
__device__ __forceinline__ void add_to(const View<float, 1>& sums, const Span<P, float, kFull>& at,
                                       const V& v) {
  store_cached(sums, at, load(sums, at) + v);
}
template <class P, class Row, bool kFull, class V>
__device__ __forceinline__ void add_to(HeldSums<P, Row>& sums, const Span<P, float, kFull>& at,
                                       const V& v) {
  sums.slots[at.slot] += v;
}

template <class P>
__device__ __forceinline__ void put_sums(P, const View<float, 1>&) {}
template <class P, class Row>
__device__ __forceinline__ void put_sums(P p, const HeldSums<P, Row>& sums) {
  if (sums.row.data == nullptr) return;
  for_slots<float, P::kSpans, is_whole<Row>>(p, sums.row.size(0), [&](const auto& at) {
    store_cached(sums.row, at, sums.slots[at.slot]);
  });
}

/// Rows a thread reads before it adds the first of them up.
template <class P, class C, bool kFull>
TW_INLINE constexpr int rows_ahead(const Span<P, C, kFull>&) {
  return kFull ? 8 : 1;  // lane by lane, a row has as many loads
}
/// put(at, sums) of each span of the columns of `count` rows, in arithmetic type C. The plan's
/// scratch has a vector for each thread; the rows have no more columns than those have. Some
/// threads side by side have a row, others the next one; then their sums are added up, those of a
/// warp first.
template <class C, class P, class R, class Put>
__device__ __forceinline__ void add_rows(P p, const R& rows, int64_t count, Put&& put) {
  using V = typename P::template Vec<C>;
  constexpr int kN = P::template kLanes<C>;
  auto row = rows.row(0);
  const int n = int(row.size(0)), bits = 32 - __clz((n - 1) / kN), across = 1 << bits;
  const int shares = p.threads() >> bits, share = p.thread() >> bits;
  const int column = (p.thread() & (across - 1)) * kN;
  const int64_t one = rows.row(1).data - row.data, all = one * shares;
  const auto at = span_at<C>(p, row, column);
  constexpr int kAhead = rows_ahead(decltype(at){});
  V total{};
  const auto add = [&](int64_t left) TW_INLINED {  // of the rows from this one on
    decltype(load_raw(row, at)) ahead[kAhead] = {};
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a, row.data += all)
      if (a * shares < left) ahead[a] = load_raw(row, at);
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) total += ahead[a].template widen<C>();
  };
  if (column < n) {
    row.data += share * one;
    int64_t left = count - share;
    TW_ROLLED
    for (; left > (kAhead - 1) * shares; left -= kAhead * shares) add(int64_t{1} << 40);
    if (left > 0) add(left);
  }
  TW_ROLLED
  for (int lane = across; lane < 32; lane *= 2) {
    TW_UNROLL
    for (int i = 0; i < kN; ++i) total[i] += __shfl_xor_sync(p.mask(), total[i], lane);
  }
  V* const sums = p.template scratch<V>();
  sums[p.thread()] = total;
  p.sync();
  if (share > 0 || column >= n) return;
  const int step = across < 32 ? 32 : across;
  TW_UNROLL_4
  for (int t = p.thread() + step; t < p.threads(); t += step) total += sums[t];
  put(at, total);
}

}  // namespace tw::tile
