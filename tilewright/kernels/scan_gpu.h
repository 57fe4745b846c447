// The schedules of scan.h on a GPU. A program has a row, which its threads walk span by span, and
// combine what the spans of a step come to; or, where rows lie side by side in memory, as many rows
// as make a line of it: threads side by side have two rows each, others their next columns.
#pragma once

#include "tilewright/tile/tile.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/combine_before.h"
#endif

namespace tw::kernels {

/// One row: an instance of any number of threads.
template <class P>
TW_INLINE tile::Plan plan_of_scanned_row(int64_t rows, int64_t cols) {
  constexpr int64_t kMany = 512;  // blocks of so many threads overlap
  return tile::plan_of(rows).over_at_most(cols, rows < kMany ? 16384 : 8192);
}

/// Rows side by side.
template <class P, class T>
struct ScanBeside {
  static constexpr int kRows = 2;  // of a thread
  /// Columns that it has at a time, while the next are on their way.
  static constexpr int kAhead = sizeof(T) > 2 ? 4 : 8;
  static constexpr int kMostShares = 32, kMostThreads = 512, kLeastThreads = 64;

  const Rows<const T>& x;  // [outer, inner] rows
  const Rows<T>& out;
  int across = 4, shares = 1;  // threads of a program side by side, and that share their columns
  int64_t blocks = 1;          // of inner

  TW_INLINE ScanBeside(const Rows<const T>& from, const Rows<T>& to) : x(from), out(to) {
    while (across < 64 && across * kRows < inner()) across *= 2;
    while (shares < kMostShares && shares * kAhead < x.cols) shares *= 2;
    while (across * shares > kMostThreads) across /= 2;
    while (across * shares < kLeastThreads) across *= 2;
    blocks = index_quotient(inner() + across * kRows - 1, across * kRows);
  }
  TW_INLINE int64_t inner() const { return x.lead_sizes[x.lead - 1]; }

  TW_INLINE tile::Plan plan() const {
    const int64_t threads = across * shares;
    return tile::plan_of(index_quotient(x.rows, inner()) * blocks,
                         2 * threads * kRows * int64_t{sizeof(double)})
        .over_threads(threads);
  }

#if defined(__CUDACC__)
  /// From the first column to the last, or from the last to the first.
  template <class R, bool kFromEnd = false>
  __device__ __forceinline__ void run(P p) const {
    const int64_t which = index_quotient(p.index(), blocks);
    const int64_t first = (p.index() - which * blocks) * across * kRows;
    const View<const T, 1> from = x.row(which * inner());
    const View<T, 1> to = out.row(which * inner());
    using Pair = tile::Raw<T, kRows>;
    const bool is_whole = inner() % kRows == 0 && x.col_stride % kRows == 0 &&
                          out.col_stride % kRows == 0 && Pair::is_aligned(from.data) &&
                          Pair::is_aligned(to.data);
    const int64_t row = first + (p.thread() & (across - 1)) * kRows, left = inner() - row;
    const int count = left >= kRows ? kRows : left > 0 ? int(left) : 0;
    constexpr int kSign = kFromEnd ? -1 : 1;
    const int64_t begin = kFromEnd ? x.cols - 1 : 0;
    const Walk those{from.data + row + begin * x.col_stride,
                     to.data + row + begin * out.col_stride,
                     kSign * x.col_stride,
                     kSign * out.col_stride,
                     x.cols,
                     count,
                     across,
                     shares};
    if (is_whole)
      walk<R, true>(p, those);
    else
      walk<R, false>(p, those);
  }

 private:
  using Totals = tile::Pack<double, kRows>;

  template <class R>
  __device__ __forceinline__ static void combine(Totals& total, const Totals& v) {
    TW_UNROLL
    for (int i = 0; i < kRows; ++i) total[i] = R::combine(total[i], v[i]);
  }
  template <class R>
  __device__ __forceinline__ static void combine(Totals& total, const tile::Raw<T, kRows>& raw) {
    const auto v = raw.template widen<float>();
    combine<R>(total, Totals{double(v[0]), double(v[1])});
  }

  /// A thread's rows, of which there are `count`.
  struct Walk {
    const T* from;
    T* to;
    int64_t step, to_step, cols;  // from a column to the next
    int count, across, shares;
  };
  /// In steps of all shares. A function of its own, so that rows one by one have the registers.
  template <class R, bool kIsWhole>
  __device__ __noinline__ static void walk(P p, Walk of) {
    using Raw = tile::Raw<T, kRows>;
    const int64_t cols = of.count > 0 ? of.cols : 0, stride = int64_t{of.shares} * kAhead;
    Raw next[kAhead] = {};
    int64_t column = int64_t{p.thread() / of.across} * kAhead;  // of the next
    const auto load = [&] {
      const T* at = of.from + column * of.step;
      TW_UNROLL
      for (int a = 0; a < kAhead; ++a, at += of.step) {
        if (column + a >= cols) continue;
        if constexpr (kIsWhole)
          next[a] = Raw::load(at);
        else
          next[a] = Raw::gather(at, 1, of.count);
      }
    };
    load();
    const double one = R::template identity<double>();
    Totals carry{one, one};
    TW_ROLLED
    for (int64_t begin = 0, turn = 0; begin < of.cols; begin += stride, turn ^= 1) {
      Raw now[kAhead];
      TW_UNROLL
      for (int a = 0; a < kAhead; ++a) now[a] = next[a];
      const int64_t here = column;
      column += stride;
      load();
      Totals total = carry;
      if (of.shares > 1) carry = exchange<R>(p, of, int(turn), now, total);
      T* at = of.to + here * of.to_step;
      TW_UNROLL
      for (int a = 0; a < kAhead; ++a, at += of.to_step) {
        combine<R>(total, tile::anew(now[a]));
        if (here + a >= cols) continue;
        const auto raw = Raw::narrow(tile::Pack<float, kRows>{float(total[0]), float(total[1])});
        if constexpr (kIsWhole)
          raw.store(at);
        else
          raw.scatter(at, 1, of.count);
      }
      if (of.shares == 1) carry = total;
    }
  }
  /// Of what the shares come to: `total`, up to the step, with those before this one; with all.
  template <class R>
  __device__ __forceinline__ static Totals exchange(P p, const Walk& of, int turn,
                                                    const tile::Raw<T, kRows> (&now)[kAhead],
                                                    Totals& total) {
    const double one = R::template identity<double>();
    Totals its{one, one}, all = total;
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) combine<R>(its, now[a]);
    Totals* const shared = p.template scratch<Totals>() + turn * p.threads();
    shared[p.thread()] = its;
    p.sync();
    const int share = p.thread() / of.across;
    const Totals* at = shared + (p.thread() & (of.across - 1));
    TW_UNROLL_4
    for (int s = 0; s < of.shares; ++s, at += of.across) {
      if (s == share) total = all;
      combine<R>(all, *at);
    }
    return all;
  }
#endif
};

#if defined(__CUDACC__)
/// A row from its first column to its last, or from its last to its first.
template <class R, class C, bool kFromEnd = false, class P, class From, class To>
__device__ __forceinline__ void scan_by_threads(P p, const From& from, const To& to) {
  static_assert(!kFromEnd || tile::same_type<R, tile::Sum>, "past the end of the row are zeros");
  constexpr int kLanes = P::template kLanes<C>;
  const auto lane = [](int i) { return kFromEnd ? kLanes - 1 - i : i; };
  const int64_t cols = from.size(0), step = int64_t{p.threads()} * kLanes;
  const int64_t last = (cols - 1) / kLanes * kLanes;  // span
  int64_t c = int64_t{p.thread()} * kLanes;           // columns passed over before the next span
  const auto span = [&](const auto& row, int64_t passed) {
    return tile::span_at<C>(p, row, kFromEnd ? last - passed : passed);
  };
  const auto load = [&](int64_t passed) { return tile::load_raw(from, span(from, passed)); };
  decltype(load(0)) next = {};
  if (c < cols) next = load(c);
  double carry = R::template identity<double>();
  TW_ROLLED
  for (int64_t begin = 0, turn = 0; begin < cols; begin += step, c += step, ++turn) {
    auto v = next.template widen<C>();
    if (c + step < cols) next = load(c + step);
    double total = double(v[lane(0)]);
    TW_UNROLL
    for (int i = 1; i < kLanes; ++i) total = R::combine(total, double(v[lane(i)]));
    // Past the end of the row are zeros, after which nothing comes, or which are no more in a sum.
    const tile::Combined<double> others = tile::combine_before<R>(p, total, int(turn));
    if (c < cols) {
      total = R::combine(carry, others.before);
      TW_UNROLL
      for (int i = 0; i < kLanes; ++i) {
        total = R::combine(total, double(v[lane(i)]));
        v[lane(i)] = C(total);
      }
      tile::store_cached(to, span(to, c), v);
    }
    carry = R::combine(carry, others.all);
  }
}
#endif

}  // namespace tw::kernels
