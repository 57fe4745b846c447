// Rows on CUDA, and how the threads of an instance walk them: they take the spans of a row in turn.
// Freestanding.
//
// AlignedRow is aligned and of whole spans, which are loaded and stored in words of 16 bytes. Spans
// of an AdjacentRow, which an odd number of columns makes of most, go in words, too (unaligned.h).
// Others are Views, and go lane by lane. with_rows.h tells which is which.
#pragma once

#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/program.h"
#include "tilewright/tile/cuda/unaligned.h"

// What is not spelled out stays a loop, TW_ROLLED: registers are worth more than branches.
#define TW_UNROLL_4 _Pragma("unroll 4")

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
  TW_INLINE static constexpr int64_t stride(int) { return 1; }
  TW_INLINE T& operator()(int64_t i) const { return data[i]; }
  /// Whole spans of it.
  TW_INLINE AlignedRow part(int64_t begin, int64_t count) const { return {data + begin, {count}}; }
};
/// Adjacent elements, as many and from where they like. Spans begin where words do: the first one
/// is `phase` elements short, so that it has lanes up to the second one's word. Of rows whose words
/// begin at different columns, phase is 0. The branch for these rows is the larger one: what it
/// computes, the compiler must not compute ahead of it, in registers that the others lack.
template <class T>
struct AdjacentRow {
  T* data;
  int64_t sizes[1];
  int phase;
  AdjacentRow() = default;
  __device__ __forceinline__ AdjacentRow(T* from, int64_t count, int short_of = 0)
      : data(from), sizes{count}, phase(short_of) {
    asm("" : "+l"(data), "+l"(sizes[0]));
  }
  TW_INLINE int64_t size(int) const { return sizes[0]; }
  TW_INLINE static constexpr int64_t stride(int) { return 1; }
  TW_INLINE T& operator()(int64_t i) const { return data[i]; }
  /// From a column that is a multiple of a span's.
  TW_INLINE AdjacentRow part(int64_t begin, int64_t count) const {
    return {data + begin, count, phase};
  }
};
template <class Row>
inline constexpr bool is_whole = false;  // of whole spans
template <class T>
inline constexpr bool is_whole<AlignedRow<T>> = true;

template <class Row, class T>
__device__ __forceinline__ Row row_at(T* data, int64_t cols, int in_word) {
  if constexpr (is_whole<Row>)
    return {data, {cols}};
  else
    return {data, cols, int(reinterpret_cast<uint64_t>(data) & unsigned(in_word)) / int(sizeof(T))};
}
/// Rows, each a Row. kInLoop: of a kernel with a loop over rows, before which the compiler would
/// compute the reciprocals of all leading sizes, and keep them in registers.
template <class Row, class T, bool kInLoop>
struct RowsOf {
  const Rows<T>& base;
  int in_word;  // the bits of an address within a word, if rows have phases
  __device__ __forceinline__ Row row(int64_t i) const {
    if constexpr (!kInLoop) return row_at<Row>(base.row(i).data, base.cols, in_word);
    int64_t offset = 0;
    TW_ROLLED
    for (int d = base.lead - 1; d > 0; --d) {
      const int64_t next = index_quotient(i, base.lead_sizes[d]);
      offset += (i - next * base.lead_sizes[d]) * base.lead_strides[d];
      i = next;
    }
    return row_at<Row>(base.data + offset + i * base.lead_strides[0], base.cols, in_word);
  }
};

/// A column of a row: where registers hold whole rows, they are short.
template <int kSpans>
struct ColumnOf {
  using type = int;
};
template <>
struct ColumnOf<0> {
  using type = int64_t;
};

/// The span that begins with column c of n.
template <class C, class P>
__device__ __forceinline__ Span<P, C, false> span_of(P, int64_t c, int64_t n, int slot = -1) {
  constexpr int kN = P::template kLanes<C>;
  return {c, n - c < kN ? int(n - c) : kN, slot};
}

/// Calls f(span) for the thread's spans of a row of n columns, in arithmetic type C. kChains is the
/// CPU's: here other warps fill the gaps.
template <class C = float, int kChains = 1, class P, class F>
__device__ __forceinline__ void for_row(P p, int64_t n, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  const int64_t step = int64_t{p.threads()} * kN;
  TW_ROLLED
  for (int64_t c = int64_t{p.thread()} * kN; c < n; c += step) f(span_of<C>(p, c, n));
}
/// The same for the columns of a row.
template <class C = float, int kChains = 1, class P, class T, class F>
__device__ __forceinline__ void for_row(P p, const View<T, 1>& row, F&& f) {
  for_row<C>(p, row.size(0), f);
}
template <class C = float, int kChains = 1, class P, class T, class F>
__device__ __forceinline__ void for_row(P p, const AlignedRow<T>& row, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  const int64_t step = int64_t{p.threads()} * kN;
  TW_ROLLED
  for (int64_t c = int64_t{p.thread()} * kN; c < row.size(0); c += step)
    f(Span<P, C, true>{c, kN, -1});
}
/// Of n columns, the spans that the registers hold, kSlots a thread at most. kFull: they are whole.
template <class C, int kSlots, bool kFull = true, class P, class F>
__device__ __forceinline__ void for_slots(P p, int64_t n, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  using Column = typename ColumnOf<P::kSpans>::type;
  const Column step = Column(p.threads()) * kN, end = Column(n);
  Column c = Column(p.thread()) * kN;
  TW_UNROLL
  for (int slot = 0; slot < kSlots; ++slot, c += step) {
    if (c >= end) continue;
    if constexpr (kFull)
      f(Span<P, C, true>{int64_t(c), kN, slot});
    else
      f(span_of<C>(p, c, n, slot));
  }
}
/// f of the spans of a row that are no whole words: the one before the first word and the one
/// behind the last. `head`: columns before the first word.
template <class C, class P, class T, class F>
__device__ __forceinline__ void for_ends(P p, const AdjacentRow<T>& row, int head, F&& f) {
  const int64_t n = row.size(0);
  const int tail = int(unsigned(n - head) % P::template kLanes<C>);
  TW_ROLLED
  for (int i = 0; i < 2; ++i) {
    const bool is_mine = p.thread() == (i == 0 ? 0 : p.threads() - 1);
    const int count = i == 0 ? head : tail;
    if (is_mine && count > 0) f(Span<P, C, false>{i == 0 ? 0 : n - tail, count, -1});
  }
}
/// Columns before the first word.
template <int kN, class T>
__device__ __forceinline__ int head_of(const AdjacentRow<T>& row) {
  const int head = row.phase == 0 ? 0 : kN - row.phase;
  return head < row.size(0) ? head : int(row.size(0));
}
/// Rows of a spread program are no longer than its threads hold: see is_held.
template <class C = float, int kChains = 1, class P, class T, class F>
__device__ __forceinline__ void for_row(P p, const AdjacentRow<T>& row, F&& f) {
  if constexpr (P::kSpans > 0) {
    for_slots<C, P::kSpans, false>(p, row.size(0), f);
  } else {
    constexpr int kN = P::template kLanes<C>;
    const int head = head_of<kN>(row);
    const int64_t step = int64_t{p.threads()} * kN;
    TW_ROLLED
    for (int64_t c = head + int64_t{p.thread()} * kN; c + kN <= row.size(0); c += step)
      f(Span<P, C, true>{c, kN, -1});
    for_ends<C>(p, row, head, f);
  }
}

/// The span of a row that begins with column c.
template <class C, class P, class T>
__device__ __forceinline__ auto span_at(P p, const View<T, 1>& row, int64_t c) {
  return span_of<C>(p, c, row.size(0));
}
template <class C, class P, class T>
__device__ __forceinline__ auto span_at(P p, const AdjacentRow<T>& row, int64_t c) {
  return span_of<C>(p, c, row.size(0));
}
template <class C, class P, class T>
__device__ __forceinline__ auto span_at(P, const AlignedRow<T>&, int64_t c) {
  return Span<P, C, true>{c, P::template kLanes<C>, -1};
}
/// Span `number` of a row.
template <class C, class P, class T>
__device__ __forceinline__ Span<P, C, false> numbered_span(P, const AdjacentRow<T>& row,
                                                           int64_t number) {
  constexpr int kN = P::template kLanes<C>;
  const int64_t word = number * kN - row.phase, n = row.size(0);
  const int64_t begin = word < 0 ? 0 : word, end = word + kN < n ? word + kN : n;
  return {begin, int(end - begin), -1};
}
template <class C, class P, class Row>
__device__ __forceinline__ auto numbered_span(P p, const Row& row, int64_t number) {
  return span_at<C>(p, row, number * P::template kLanes<C>);
}
/// Which of a row's spans begins with a column, or where its word does.
template <int kN, class Row>
__device__ __forceinline__ int64_t span_number(const Row& row, int64_t column) {
  return int64_t(uint64_t(column) / kN);
}
template <int kN, class T>
__device__ __forceinline__ int64_t span_number(const AdjacentRow<T>& row, int64_t column) {
  return int64_t(uint64_t(column + row.phase) / kN);
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
__device__ __forceinline__ auto load_raw(const AdjacentRow<T>& row, const Span<P, C, kFull>& at) {
  return load_unaligned<P::template kLanes<C>>(row.data, row.size(0), at.offset, at.count);
}

/// The span's elements of a row, in the arithmetic type. Lanes past the end are zero.
template <class Row, class P, class C, bool kFull>
__device__ __forceinline__ auto load(const Row& row, const Span<P, C, kFull>& at) {
  return load_raw(row, at).template widen<C>();
}

/// To the span, what is as it shall lie.
template <class P, class C, bool kFull, class T, class R>
__device__ __forceinline__ void store_raw(const AlignedRow<T>& row, const Span<P, C, kFull>& at,
                                          const R& raw) {
  raw.store(row.data + at.offset);
}
template <class P, class C, bool kFull, class T, class R>
__device__ __forceinline__ void store_raw(const AdjacentRow<T>& row, const Span<P, C, kFull>& at,
                                          const R& raw) {
  if (at.count == at.kLanes)
    store_unaligned(raw, row.data, at.offset);
  else
    raw.scatter(row.data + at.offset, 1, at.count);
}
template <class P, class C, bool kFull, class T, class R>
__device__ __forceinline__ void store_raw(const View<T, 1>& row, const Span<P, C, kFull>& at,
                                          const R& raw) {
  raw.scatter(row.data + at.offset * row.stride(0), row.stride(0), at.count);
}
namespace detail {
template <class P, class C, class T, class V>
__device__ __forceinline__ auto narrow_to(const T*, const V& v) {
  return RawOf<P, C, T>::narrow(v);
}
}  // namespace detail
template <class Row, class P, class C, bool kFull, class V>
__device__ __forceinline__ void store_cached(const Row& row, const Span<P, C, kFull>& at,
                                             const V& v) {
  store_raw(row, at, detail::narrow_to<P, C>(row.data, v));
}
template <class Row, class P, class C, bool kFull, class V>
__device__ __forceinline__ void store(P, const Row& row, const Span<P, C, kFull>& at, const V& v) {
  store_cached(row, at, v);
}

/// A row that comes some time after this one: on its way into L2. It takes no registers. Bulk
/// copies of a multiprocessor go one after the other: of short rows, threads ask for a line each.
template <class P, class Row>
__device__ __forceinline__ void fetch_later(P p, const Row& row) {
  constexpr int64_t kLine = 128, kShort = 4096;
  const int64_t bytes = row.size(0) * int64_t{sizeof(*row.data)};
  if (bytes <= kShort) {
    TW_ROLLED
    for (int64_t at = p.thread() * kLine; at < bytes; at += p.threads() * kLine)
      cuda::prefetch_line_l2(reinterpret_cast<const char*>(row.data) + at);
  } else if (p.thread() == 0) {  // its whole words
    const auto begin = reinterpret_cast<uint64_t>(row.data);
    const uint64_t first = (begin + 15) & ~uint64_t{15}, end = (begin + bytes) & ~uint64_t{15};
    cuda::prefetch_l2(reinterpret_cast<const char*>(first), int(end - first));
  }
}
template <class P, class T>
__device__ __forceinline__ void fetch_later(P, const View<T, 1>&) {}

/// f(span, raw) for the thread's spans of a row that is read once, in order.
template <class C = float, class P, class Row, class F>
__device__ __forceinline__ void for_spans(P p, const Row& row, F&& f) {
  fetch_later(p, row);
  for_row<C>(p, row, [&](const auto& at) { f(at, load_raw(row, at)); });
}
/// Spans of a row that are on their way before the first is used: 64 bytes.
template <class R>
inline constexpr int kSpansAhead = sizeof(R) > 16 ? 2 : 4;
template <class C = float, class P, class T, class F>
__device__ __forceinline__ void for_spans(P p, const AlignedRow<T>& row, F&& f) {
  using R = RawOf<P, C, T>;
  constexpr int kN = P::template kLanes<C>, kAhead = kSpansAhead<R>;
  const int64_t step = int64_t{p.threads()} * kN, n = row.size(0);
  int64_t c = int64_t{p.thread()} * kN;
  TW_ROLLED
  for (; c + (kAhead - 1) * step < n; c += kAhead * step) {
    R spans[kAhead];
    TW_UNROLL
    for (int i = 0; i < kAhead; ++i) spans[i] = R::load(row.data + c + i * step);
    TW_UNROLL
    for (int i = 0; i < kAhead; ++i) f(Span<P, C, true>{c + i * step, kN, -1}, spans[i]);
  }
  TW_ROLLED
  for (; c < n; c += step) f(Span<P, C, true>{c, kN, -1}, R::load(row.data + c));
}

/// Those that are whole words, as many at a time.
template <class C = float, class P, class T, class F>
  requires(P::kSpans == 0)
__device__ __forceinline__ void for_spans(P p, const AdjacentRow<T>& row, F&& f) {
  using R = RawOf<P, C, T>;
  constexpr int kN = P::template kLanes<C>, kAhead = kSpansAhead<R>;
  const int head = head_of<kN>(row);
  const int64_t step = int64_t{p.threads()} * kN, n = row.size(0);
  int64_t c = head + int64_t{p.thread()} * kN;
  if (R::is_aligned(row.data + head)) {
    TW_ROLLED
    for (; c + (kAhead - 1) * step + kN <= n; c += kAhead * step) {
      R spans[kAhead];
      TW_UNROLL
      for (int i = 0; i < kAhead; ++i) spans[i] = R::load(row.data + c + i * step);
      TW_UNROLL
      for (int i = 0; i < kAhead; ++i) f(Span<P, C, true>{c + i * step, kN, -1}, spans[i]);
    }
  }
  TW_ROLLED
  for (; c + kN <= n; c += step) {
    const Span<P, C, true> at{c, kN, -1};
    f(at, load_raw(row, at));
  }
  for_ends<C>(p, row, head, [&](const auto& at) { f(at, load_raw(row, at)); });
}

/// How many columns to write first: all, since a GPU has no stores around its caches.
template <class T>
TW_INLINE int64_t first_part(const View<T, 1>& row) {
  return row.size(0);
}
/// Of CPUs; skeletons of both name them.
template <class T>
struct StagedRows;
inline constexpr int64_t kStaged = 1;

/// Of a program: one row, unless its threads are spread.
template <class P>
TW_INLINE RowGroup row_group(P p, int64_t rows, int64_t cols) {
  if constexpr (P::kSpans == 0) {
    return {p.index(), p.index() + 1};
  } else {
    const int64_t count = P::rows_per_program(rows, cols), first = p.index() * count;
    return {first, first + count < rows ? first + count : rows};
  }
}
/// Nothing: other blocks run meanwhile.
template <class P, class Row, class At>
__device__ __forceinline__ void prefetch(P, const Row&, const At&) {}
template <class P, class Row, class At>
__device__ __forceinline__ void prefetch_ahead(P, const Row&, const At&) {}
template <class P, class T>
__device__ __forceinline__ void prefetch(P, const View<T, 1>&) {}
template <class P, class T>
__device__ __forceinline__ void prefetch_random(P, const View<T, 1>&) {}

/// What the program's threads wrote before, all of them see after.
template <class P>
__device__ __forceinline__ void sync(P p) {
  p.sync();
}

}  // namespace tw::tile
