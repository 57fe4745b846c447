// Rows that are sums of rows whose positions name them, on a GPU: the way back from rows that were
// read by number.
//
//   phase 0  the lists of all rows are empty
//   phase 1  each position joins the list of its row
//   phase 2  some threads of a warp have a row: they sort its list, and add up in order
//   phase 3  rows with longer lists: blocks look for their positions among all
//
// In which order lists are linked depends on the run, what is added up in which order does not.
#pragma once

#include "tilewright/tile/tile.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/linked.h"
#endif

namespace tw::kernels {

#if defined(__CUDACC__)
/// Where row i begins, without the divisions of all leading sizes spelled out for every row that is
/// on its way.
template <class T>
__device__ __forceinline__ auto begin_of_row(const Rows<const T>& of, int64_t i) {
  if (of.lead == 1) return of.data + i * of.lead_strides[0];
  return tile::RowsOf<tile::AlignedRow<const T>, const T, true>{of}.row(i).data;
}
#endif

/// What the positions are:
///   count()      how many
///   row_of(i)    the row that position i names, or -1
///   source(i)    the row of `from` that it adds there
///   weight(i)    and by which factor, if kWeighs
template <class L>
concept PositionList = requires(const L list, int64_t i) {
  requires tile::same_type<decltype(list.count() + list.row_of(i) + list.source(i)), int64_t>;
  requires tile::same_type<decltype(list.weight(i)), float>;
  L::kWeighs;
};

template <class P, class T, PositionList Positions>
struct ListedSums {
  static constexpr int kThreads = P::kSumThreads, kLanes = P::template kLanes<float>;
  static constexpr int kMost = 32;           // positions of a list that are sorted
  static constexpr int kLeastThreads = 4;    // of a row
  static constexpr int64_t kColumns = 1024;  // of a program
  static constexpr int64_t kEmptied = 4 * kThreads, kLongPrograms = 1024;
  static constexpr int kEach = 8;  // positions that a thread looks at together
  static constexpr int64_t kChunk = kEach * kThreads, kHeld = kChunk + 1024;
  static constexpr int64_t kListBytes = (sizeof(int64_t) + 1) * kMost;

  Positions positions;
  const Rows<const T>& from;
  const View<T, 2>& to;

  TW_INLINE int64_t rows() const { return to.size(0); }
  TW_INLINE int64_t cols() const { return to.size(1); }
  TW_INLINE int64_t column_blocks() const { return (cols() + kColumns - 1) / kColumns; }
  TW_INLINE static int64_t ratio(int64_t all, int64_t each) { return (all + each - 1) / each; }
  /// Threads of so many columns: a power of two.
  TW_INLINE static int threads_of(int64_t columns, int most) {
    int threads = kLeastThreads;
    while (threads < most && threads * kLanes < columns) threads *= 2;
    return threads;
  }
  TW_INLINE int64_t rows_of_program() const { return kThreads / threads_of(cols(), 32); }
  /// Of lists too long to be sorted, there are so many at most, in each block of columns.
  TW_INLINE int64_t long_lists() const { return positions.count() / (kMost + 1) * column_blocks(); }

  /// Programs of phase 0; a kernel may have more there, of as many threads, which are its own.
  TW_INLINE int64_t emptying() const {
    return cols() > 0 && rows() > 0 ? ratio(rows() + 1, kEmptied) : 0;
  }
  TW_INLINE tile::Plan plan() const {
    tile::Plan plan = tile::plan_of(emptying()).over(P::kSumColumns);
    if (emptying() == 0) return plan;
    plan.phases = 4;
    plan.grid[1] = ratio(positions.count(), kThreads);
    plan.grid[2] = ratio(rows(), rows_of_program()) * column_blocks();
    plan.grid[3] = long_lists() < kLongPrograms ? long_lists() : kLongPrograms;
    plan.workspace_bytes =
        (rows() + 1 + positions.count() + long_lists()) * int64_t{sizeof(int64_t)};
    const int64_t lists = rows_of_program() * kListBytes, held = kHeld * int64_t{sizeof(int64_t)};
    plan.scratch_bytes = lists > held ? lists : held;
    static_assert(kHeld * sizeof(int64_t) >= P::template kSumBytes<float>);
    return plan;
  }

#if defined(__CUDACC__)
  using V = typename P::template Vec<float>;

  __device__ __forceinline__ void operator()(P p) const {
    if (p.phase() == 0) {
      for (int64_t v = p.index() * kEmptied + p.thread(), i = 0; i < kEmptied;
           v += kThreads, i += kThreads)
        if (v <= rows()) heads(p)[v] = v < rows() ? -1 : 0;
    } else if (p.phase() == 1) {
      const int64_t i = p.index() * kThreads + p.thread();
      if (i >= positions.count()) return;
      const int64_t v = positions.row_of(i);
      if (v < 0) return;
      tile::require_index(p, v, rows());
      tile::link(heads(p) + v, next(p), i);
    } else if (p.phase() == 2) {
      add_lists(p);
    } else {
      for (int64_t i = p.index(), all = *long_count(p); i < all; i += kLongPrograms) {
        const int64_t v = index_quotient(long_rows(p)[i], column_blocks());
        add_matches(p, v, (long_rows(p)[i] - v * column_blocks()) * kColumns);
        p.sync();
      }
    }
  }

 private:
  // The workspace.
  __device__ __forceinline__ int64_t* heads(P p) const { return p.template workspace<int64_t>(); }
  __device__ __forceinline__ int64_t* long_count(P p) const { return heads(p) + rows(); }
  __device__ __forceinline__ int64_t* next(P p) const { return long_count(p) + 1; }
  __device__ __forceinline__ int64_t* long_rows(P p) const { return next(p) + positions.count(); }

  __device__ __forceinline__ int64_t end_of(int64_t begin) const {
    return cols() - begin < kColumns ? cols() : begin + kColumns;
  }

  /// total + the rows at positions first, first + step ... below count of a list, in this order.
  template <class Row, class At, class List>
  __device__ __forceinline__ V add(V total, Row row, const At& at, const List& list, int first,
                                   int step, int count) const {
    using R = decltype(tile::load_raw(row, at));
    constexpr bool kIsWord = tile::is_whole<Row>;
    constexpr int kAhead = kIsWord ? (sizeof(R) > 16 ? 2 : 4) : 1;
    TW_ROLLED
    for (int k = first; k < count; k += kAhead * step) {
      R ahead[kAhead] = {};
      TW_UNROLL
      for (int a = 0; a < kAhead; ++a) {
        if (k + a * step >= count) continue;
        row.data = begin_of_row(from, positions.source(list[k + a * step]));
        ahead[a] = tile::load_raw(row, at);
      }
      TW_UNROLL
      for (int a = 0; a < kAhead; ++a) {
        const V more = ahead[a].template widen<float>();
        if constexpr (!Positions::kWeighs)
          total += more;
        else if (k + a * step < count)
          total = tile::fma(tile::splat<V>(positions.weight(list[k + a * step])), more, total);
      }
    }
    return total;
  }
  __device__ __forceinline__ void add_lists(P p) const {
    const int64_t which = index_quotient(p.index(), column_blocks());
    const int64_t begin = (p.index() - which * column_blocks()) * kColumns;
    const int lanes = threads_of(cols(), 32), lane = p.thread() & (lanes - 1);
    const int group = p.thread() / lanes;
    const int64_t v = which * (kThreads / lanes) + group;
    using List = tile::ShortList<kMost>;
    static_assert(sizeof(List) == kListBytes);
    List& list = p.template scratch<List>()[group];
    const int count = list.collect(next(p), v < rows() ? heads(p)[v] : -1, lane, lanes);
    if (v >= rows()) return;
    if (count > kMost) {
      if (lane == 0)
        long_rows(p)[tile::take_place(long_count(p))] = v * column_blocks() + begin / kColumns;
      return;
    }
    const auto add_all = [&](const auto& rows, const auto& sums) {
      TW_ROLLED
      for (int64_t c = begin + lane * kLanes; c < end_of(begin); c += lanes * kLanes) {
        const auto at = tile::span_at<float>(p, sums, c);
        tile::store_cached(sums, at, add(V{}, rows.row(0), at, list, 0, 1, count));
      }
    };
    tile::with_rows(p, add_all, from, to[v]);
  }

  /// Row v's columns from `begin` on. The matches are dealt out to the threads that have the same
  /// columns, whose sums are then added up.
  __device__ __forceinline__ void add_matches(P p, int64_t v, int64_t begin) const {
    const int across = threads_of(end_of(begin) - begin, kThreads), shares = kThreads / across;
    const int share = p.thread() / across;
    const int64_t column = begin + (p.thread() & (across - 1)) * kLanes, n = positions.count();
    int64_t* const list = p.template scratch<int64_t>();
    const auto add_all = [&](const auto& rows, const auto& out) {
      const auto at = tile::span_at<float>(p, out, column);
      V total{};
      int held = 0;
      TW_ROLLED
      for (int64_t first = 0; first < n; first += kChunk) {
        held += tile::append_matches<kEach>(
            p, first, n, [&](int64_t i) { return positions.row_of(i) == v; }, list + held);
        if (held + kChunk <= kHeld && first + kChunk < n) continue;
        if (column < end_of(begin)) total = add(total, rows.row(0), at, list, share, shares, held);
        held = 0;
        p.sync();  // the list is written again
      }
      V* const sums = p.template scratch<V>();
      sums[p.thread()] = total;
      p.sync();
      if (share > 0 || column >= end_of(begin)) return;
      TW_ROLLED
      for (int t = p.thread() + across; t < kThreads; t += across) total += sums[t];
      tile::store_cached(out, at, total);
    };
    tile::with_rows(p, add_all, from, to[v]);
  }
#endif
};

}  // namespace tw::kernels
