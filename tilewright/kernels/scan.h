// The sums, or products, of the elements of each row up to every one of them, in float64. One
// program per row: on a CPU from its first element to its last; on a GPU each thread has a stretch,
// and first learns what the stretches before it come to.
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
      int64_t begin = 0, end = x.cols;
      double total = R::template identity<double>();
      if constexpr (P::kOnGpu) {
        const int64_t stretch = (x.cols + p.threads() - 1) / p.threads();
        begin = p.thread() * stretch < x.cols ? p.thread() * stretch : x.cols;
        end = begin + stretch < x.cols ? begin + stretch : x.cols;
        for (int64_t c = begin; c < end; ++c) total = R::combine(total, double(C(from(c))));
        double* const totals = p.template scratch<double>();
        totals[p.thread()] = total;
        p.sync();
        total = R::template identity<double>();
        for (int t = 0; t < p.thread(); ++t) total = R::combine(total, totals[t]);
        p.sync();  // another row of this instance writes the same memory
      }
      for (int64_t c = begin; c < end; ++c) {
        total = R::combine(total, double(C(from(c))));
        to(c) = T(C(total));
      }
    });
  }
};

}  // namespace tw::kernels
