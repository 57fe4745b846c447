// The sums, or products, of the elements of each row up to every one of them, in float64. One
// program per row. On a CPU from its first element to its last, sums by groups: those within a
// group wait for no group before it. On a GPU each thread has a stretch, and first learns what the
// stretches before it come to.
#pragma once

#include "tilewright/kernels/choose.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// In the order of the schema of ops/scan.h.
using ScanFunctions = OneOf<tile::Sum, tile::Product>;

template <class T>
struct Scan {
  using C = tile::compute_t<T>;

  Rows<const T> x;  // [*, cols]
  int function;
  int64_t dim;  // the caller moved this dimension into the last place
  Rows<T> out;  // [*, cols], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    constexpr int64_t kMostThreads = P::kOnGpu ? 512 : 0;
    return tile::plan_of(x.rows, kMostThreads * int64_t{sizeof(double)}).over(x.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const View<const T, 1> from = x.row(p.index());
    const View<T, 1> to = out.row(p.index());
    ScanFunctions::choose(function, [&](auto reduction) {
      using R = decltype(reduction);
      if constexpr (P::kOnGpu)
        scan_by_threads<R>(p, from, to);
      else
        tile::with_rows<C>(
            p, [](const auto& in, const auto& result) { scan_row<R>(in, result); }, from, to);
    });
  }

 private:
  /// total becomes the sum of it and the elements [begin, end), which are written on the way.
  template <tile::Reduction R, class From, class To>
  TW_INLINE static void continue_scan(double& total, const From& from, const To& to, int64_t begin,
                                      int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      total = R::combine(total, double(C(from(c))));
      to(c) = T(C(total));
    }
  }

  template <tile::Reduction R, class From, class To>
  TW_INLINE static void scan_row(const From& from, const To& to) {
    const int64_t n = from.size(0);
    double total = R::template identity<double>();
    int64_t begin = 0;
    if constexpr (tile::same_type<R, tile::Sum>) {  // a product could overflow on another way
      constexpr int kGroup = 8;
      for (; begin + kGroup <= n; begin += kGroup) {
        double sums[kGroup];
        for (int i = 0; i < kGroup; ++i) sums[i] = double(C(from(begin + i)));
        for (int i = 1; i < kGroup; ++i) sums[i] += sums[i - 1];
        for (int i = 0; i < kGroup; ++i) to(begin + i) = T(C(total + sums[i]));
        total += sums[kGroup - 1];
      }
    }
    continue_scan<R>(total, from, to, begin, n);
  }

  template <tile::Reduction R, class P>
  TW_DEVICE void scan_by_threads(P p, const View<const T, 1>& from, const View<T, 1>& to) const {
    const int64_t stretch = (x.cols + p.threads() - 1) / p.threads();
    const int64_t begin = p.thread() * stretch < x.cols ? p.thread() * stretch : x.cols;
    const int64_t end = begin + stretch < x.cols ? begin + stretch : x.cols;
    double total = R::template identity<double>();
    for (int64_t c = begin; c < end; ++c) total = R::combine(total, double(C(from(c))));
    double* const totals = p.template scratch<double>();
    totals[p.thread()] = total;
    p.sync();
    total = R::template identity<double>();
    for (int t = 0; t < p.thread(); ++t) total = R::combine(total, totals[t]);
    p.sync();  // another row of this instance writes the same memory
    continue_scan<R>(total, from, to, begin, end);
  }
};

}  // namespace tw::kernels
