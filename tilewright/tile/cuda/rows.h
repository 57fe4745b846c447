// Rows on CUDA, and how the threads of an instance walk them: they take the spans of a row in turn.
// Freestanding.
//
// Rows of any strides go lane by lane. Where with_rows finds all rows aligned, and their length
// whole spans, it hands out AlignedRow, whose spans are loaded and stored in words of 16 bytes; of
// these, keep_row keeps the first in registers and the next ones in shared memory.
#pragma once

#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/memory.h"
#include "tilewright/tile/cuda/program.h"

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
/// kInLoop: of a kernel with a loop over rows, before which the compiler would compute the
/// reciprocals of all leading sizes, and keep them in registers.
template <class T, bool kInLoop>
struct AlignedRows {
  const Rows<T>& base;
  __device__ __forceinline__ AlignedRow<T> row(int64_t i) const {
    if constexpr (!kInLoop) return {base.row(i).data, {base.cols}};
    int64_t offset = 0;
    TW_ROLLED
    for (int d = base.lead - 1; d > 0; --d) {
      const int64_t next = index_quotient(i, base.lead_sizes[d]);
      offset += (i - next * base.lead_sizes[d]) * base.lead_strides[d];
      i = next;
    }
    return {base.data + offset + i * base.lead_strides[0], {base.cols}};
  }
};

/// A row that is read more than once: its first spans stay in the thread's registers, in the
/// storage type, the next ones in shared memory, so that memory is read once. What a thread keeps,
/// it alone reads.
template <class P, class C, class T>
struct KeptRow {
  using R = RawOf<P, C, T>;
  static constexpr int kKept = P::template kKeptSpans<C, T>;
  AlignedRow<T> row;
  R slots[kKept];
  T* shared = nullptr;     // of column 0, were it there
  int64_t shared_end = 0;  // columns from the first after the registers' to here are there
  TW_INLINE int64_t size(int d) const { return row.size(d); }
  TW_INLINE T* beyond_slots(int64_t c) const { return (c < shared_end ? shared : row.data) + c; }
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

namespace detail {
/// Columns of a row that the registers of an instance hold.
template <class P, class C, class T>
TW_INLINE constexpr int64_t kept_in_registers(int threads) {
  return int64_t{threads} * P::template kLanes<C> * KeptRow<P, C, T>::kKept;
}
}  // namespace detail

/// Calls f(span) for the thread's spans of a row of n columns, in arithmetic type C. kChains is the
/// CPU's: here other warps fill the gaps.
template <class C = float, int kChains = 1, class P, class F>
__device__ __forceinline__ void for_row(P p, int64_t n, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  const int64_t step = int64_t{p.threads()} * kN;
  TW_ROLLED
  for (int64_t c = int64_t{p.thread()} * kN; c < n; c += step)
    f(Span<P, C, false>{c, n - c < kN ? int(n - c) : kN, -1});
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
/// Of n columns, the spans that the registers hold, kSlots a thread at most.
template <class C, int kSlots, class P, class F>
__device__ __forceinline__ void for_slots(P p, int64_t n, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  using Column = typename ColumnOf<P::kSpans>::type;
  const Column step = Column(p.threads()) * kN, end = Column(n);
  Column c = Column(p.thread()) * kN;
  TW_UNROLL
  for (int slot = 0; slot < kSlots; ++slot, c += step)
    if (c < end) f(Span<P, C, true>{int64_t(c), kN, slot});
}
template <class P, class C, class T, class F>
__device__ __forceinline__ void for_slots(P p, const KeptRow<P, C, T>& row, F&& f) {
  for_slots<C, KeptRow<P, C, T>::kKept>(p, row.size(0), f);
}
template <class C = float, int kChains = 1, class P, class T, class F>
__device__ __forceinline__ void for_row(P p, const KeptRow<P, C, T>& row, F&& f) {
  constexpr int kN = P::template kLanes<C>;
  const int64_t step = int64_t{p.threads()} * kN, n = row.size(0);
  for_slots(p, row, f);
  if constexpr (P::kSpans > 0) return;  // registers hold the row: see is_aligned
  int64_t c = detail::kept_in_registers<P, C, T>(p.threads()) + int64_t{p.thread()} * kN;
  TW_UNROLL_4  // so that loads go ahead of what is done with the ones before
      for (; c < n; c += step) f(Span<P, C, true>{c, kN, -1});
}

/// The span of a row that begins with column c.
template <class C, class P, class T>
__device__ __forceinline__ auto span_at(P, const View<T, 1>& row, int64_t c) {
  constexpr int kN = P::template kLanes<C>;
  const int64_t rest = row.size(0) - c;
  return Span<P, C, false>{c, rest < kN ? int(rest) : kN, -1};
}
template <class C, class P, class T>
__device__ __forceinline__ auto span_at(P, const AlignedRow<T>&, int64_t c) {
  return Span<P, C, true>{c, P::template kLanes<C>, -1};
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
  return RawOf<P, C, T>::load(kept.beyond_slots(at.offset));
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
  if (at.slot >= 0)
    kept.slots[at.slot] = raw;
  else if (at.offset < kept.shared_end)
    raw.store(kept.shared + at.offset);
  raw.store(kept.row.data + at.offset);
}
template <class Row, class P, class C, bool kFull, class V>
__device__ __forceinline__ void store(P, const Row& row, const Span<P, C, kFull>& at, const V& v) {
  store_cached(row, at, v);
}

/// f(span, raw) for the thread's spans of a row that is read once, in order.
template <class C = float, class P, class T, class F>
__device__ __forceinline__ void for_spans(P p, const View<T, 1>& row, F&& f) {
  for_row<C>(p, row, [&](const auto& at) { f(at, load_raw(row, at)); });
}
template <class C = float, class P, class T, class F>
__device__ __forceinline__ void for_spans(P p, const AlignedRow<T>& row, F&& f) {
  using R = RawOf<P, C, T>;
  // 64 bytes are on their way before the first is used.
  constexpr int kN = P::template kLanes<C>, kAhead = sizeof(R) > 16 ? 2 : 4;
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

namespace detail {
/// A row to be kept, of which nothing is kept yet.
template <class C, class P, class T>
__device__ __forceinline__ KeptRow<P, C, T> open_row(P p, const AlignedRow<T>& row, int which) {
  using Element = typename remove_const<T>::type;
  KeptRow<P, C, T> out;
  out.row = row;
  const int64_t first = kept_in_registers<P, C, T>(p.threads());
  const int64_t bytes = P::template kept_bytes<C, Element>(row.size(0));
  if (row.size(0) > first && (which + 1) * bytes <= p.shared_scratch()) {
    const int64_t count = bytes / int64_t{sizeof(T)};
    out.shared = p.template scratch<Element>() + which * count - first;
    out.shared_end = first + count;
  }
  return out;
}
}  // namespace detail

template <class C = float, class P, class T>
__device__ __forceinline__ View<T, 1> keep_row(P, const View<T, 1>& row, int = 0) {
  return row;
}
/// `row`, for loads in arithmetic type C, near at hand as far as that reaches. The plan's scratch
/// begins with kept_bytes for each row that is kept; this is number `which` of them.
template <class C = float, class P, class T>
__device__ __forceinline__ KeptRow<P, C, T> keep_row(P p, const AlignedRow<T>& row, int which = 0) {
  using R = RawOf<P, C, T>;
  using Element = typename remove_const<T>::type;
  constexpr int kN = P::template kLanes<C>, kStep = R::kWordBytes / int(sizeof(T));
  KeptRow<P, C, T> out = detail::open_row<C>(p, row, which);
  const int64_t end = row.size(0) < out.shared_end ? row.size(0) : out.shared_end;
  const int64_t first = detail::kept_in_registers<P, C, T>(p.threads());
  TW_ROLLED
  for (int64_t c = first + int64_t{p.thread()} * kN; c < end; c += int64_t{p.threads()} * kN) {
    TW_UNROLL
    for (int i = 0; i < kN; i += kStep)
      cuda::copy_async<R::kWordBytes>(const_cast<Element*>(out.shared) + c + i, row.data + c + i);
  }
  for_slots(p, out, [&](const auto& at) { out.slots[at.slot] = load_raw(row, at); });
  if (end > first) cuda::wait_copies();
  return out;
}

template <class C = float, class P, class T>
__device__ __forceinline__ View<T, 1> fetch_row(P, const View<T, 1>& row) {
  return row;
}
/// The same in registers alone, where scratch is for something else.
template <class C = float, class P, class T>
__device__ __forceinline__ KeptRow<P, C, T> fetch_row(P p, const AlignedRow<T>& row) {
  KeptRow<P, C, T> out;
  out.row = row;
  for_slots(p, out, [&](const auto& at) { out.slots[at.slot] = load_raw(row, at); });
  return out;
}

template <class P, class T>
__device__ __forceinline__ void fetch_later(P, const View<T, 1>&) {}
/// A row that comes some time after this one: on its way into L2. It takes no registers.
template <class P, class T>
__device__ __forceinline__ void fetch_later(P p, const AlignedRow<T>& row) {
  if constexpr (sizeof(T) > 1)  // whole spans of less may be no multiple of 16 bytes
    if (p.thread() == 0) cuda::prefetch_l2(row.data, int(row.size(0) * int64_t{sizeof(T)}));
}

/// A row that is written and then read again: kept as keep_row does, and where the kept row of the
/// same number is no longer read.
template <class C = float, class P, class T>
__device__ __forceinline__ View<T, 1> new_row(P, const View<T, 1>& row, int = 0) {
  return row;
}
template <class C = float, class P, class T>
__device__ __forceinline__ KeptRow<P, C, T> new_row(P p, const AlignedRow<T>& row, int which = 0) {
  return detail::open_row<C>(p, row, which);
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

/// What the program's threads wrote before, all of them see after.
template <class P>
__device__ __forceinline__ void sync(P p) {
  p.sync();
}

namespace detail {

/// Whether the spans of a spread program's threads are a whole row.
template <class C, class P>
__device__ __forceinline__ bool is_held(P p, int64_t cols) {
  return P::kSpans == 0 || cols <= int64_t{p.threads()} * P::template kLanes<C> * P::kSpans;
}
template <class C, class P, class T>
__device__ __forceinline__ bool is_aligned(P p, const View<T, 1>& row) {
  return is_held<C>(p, row.size(0)) && row.stride(0) == 1 &&
         row.size(0) % P::template kLanes<C> == 0 && RawOf<P, C, T>::is_aligned(row.data);
}
template <class C, class P, class T>
__device__ __forceinline__ bool is_aligned(P p, const Rows<T>& rows) {
  using R = RawOf<P, C, T>;
  int64_t strides = rows.lead_strides[0];  // the common divisor by powers of two is their bits'
  TW_ROLLED
  for (int d = 1; d < rows.lead; ++d) strides |= rows.lead_strides[d];
  return is_held<C>(p, rows.cols) && rows.col_stride == 1 &&
         rows.cols % P::template kLanes<C> == 0 && R::is_aligned(rows.data) &&
         strides * int64_t{sizeof(T)} % R::kWordBytes == 0;
}
template <class P, class T>
TW_INLINE AlignedRow<T> aligned(P, const View<T, 1>& row) {
  return {row.data, {row.size(0)}};
}
template <class P, class T>
TW_INLINE AlignedRows<T, (P::kSpans > 0)> aligned(P, const Rows<T>& rows) {
  return {rows};
}

}  // namespace detail

/// f of the operands, each a View of rank 1 or Rows; as AlignedRow or AlignedRows where all of them
/// are.
template <class C = float, class P, class F, class... Operand>
__device__ __forceinline__ void with_rows(P p, F&& f, const Operand&... operands) {
  if ((detail::is_aligned<C>(p, operands) && ...))
    f(detail::aligned(p, operands)...);
  else
    f(operands...);
}

}  // namespace tw::tile
