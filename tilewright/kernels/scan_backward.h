// The gradient of sums, or products, of the elements of each row up to every one of them. With
//
//   s[c] = grad[c] + x[c + 1] s[c + 1]        what follows, with what stands before c divided out
//   p[c] = x[0] ... x[c - 1]
//
// x_grad[c] = p[c] s[c], zeros in x or not; for sums x is 1. In float64. One program per row: on a
// CPU from its end to its beginning and back; on a GPU each thread has a stretch, and first learns
// what the stretches on both sides come to. There the gradient of sums is a scan from the end
// (scan_gpu.h).
#pragma once

#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/scan_gpu.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct ScanBackward {
  using C = tile::compute_t<T>;
  static constexpr int kMostThreads = 512;
  static constexpr int kPiece = 8;  // elements that a thread of a GPU holds at a time

  Rows<const T> grad;  // [*, cols]
  Rows<const T> x;     // [*, cols]
  int function;        // 0: sum, 1: prod
  int64_t dim;         // the caller moved this dimension into the last place
  Rows<T> x_grad;      // [*, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if (P::kOnGpu && function == 0 && x.cols > 0)
      return are_side_by_side<P>() ? ScanBeside<P, T>(grad, x_grad).plan()
                                   : plan_of_scanned_row<P>(x.rows, x.cols);
    const int64_t values = P::kOnGpu ? 2 * kMostThreads : x.cols;
    return tile::plan_of(x.cols > 0 ? x.rows : 0, values * int64_t{sizeof(double)}).over(x.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if defined(__CUDACC__)
    if (function == 0) return scan_from_end(p);
#endif
    const Row row{grad.row(p.index()), x.row(p.index()), x_grad.row(p.index()), function == 1};
    if constexpr (P::kOnGpu)
      row.in_stretches(p);
    else
      row.there_and_back(p.template scratch<double>());
  }

 private:
  template <class P>
  TW_INLINE bool are_side_by_side() const {
    return ColumnBlock<P, T>::are_beside_in_both(grad, x_grad);
  }
#if defined(__CUDACC__)
  template <class P>
  TW_CALLED void scan_from_end(P p) const {
    if (are_side_by_side<P>())
      return ScanBeside<P, T>(grad, x_grad).template run<tile::Sum, true>(p);
    tile::with_rows<C>(
        p,
        [&](const auto& from, const auto& to) { scan_by_threads<tile::Sum, C, true>(p, from, to); },
        grad.row(p.index()), x_grad.row(p.index()));
  }
#endif

  struct Row {
    View<const T, 1> grad, x;
    View<T, 1> x_grad;
    bool is_product;

    TW_INLINE double factor(int64_t c) const { return is_product ? double(C(x(c))) : 1.0; }
    TW_INLINE double g(int64_t c) const { return double(C(grad(c))); }

    TW_INLINE void there_and_back(double* after) const {
      double s = 0;
      for (int64_t c = x.size(0); c-- > 0;) after[c] = s = g(c) + s, s *= factor(c);
      double before = 1;
      for (int64_t c = 0; c < x.size(0); ++c) {
        const double here = before;
        before *= factor(c);  // first, for x may be overwritten
        x_grad(c) = T(C(here * after[c]));
      }
    }

    /// Of columns [begin, end): the product of x, and s[begin] x[begin] were s[end] x[end] 0.
    TW_INLINE void totals(int64_t begin, int64_t end, double& product, double& sum) const {
      product = 1;
      sum = 0;
      for (int64_t c = end; c-- > begin;) {
        sum = (g(c) + sum) * factor(c);
        product *= factor(c);
      }
    }

    template <class P>
    TW_INLINE void in_stretches(P p) const {
      const int64_t cols = x.size(0), stretch = (cols + p.threads() - 1) / p.threads();
      const int64_t begin = p.thread() * stretch < cols ? p.thread() * stretch : cols;
      const int64_t end = begin + stretch < cols ? begin + stretch : cols;
      double* const products = p.template scratch<double>();
      double* const sums = products + p.threads();
      totals(begin, end, products[p.thread()], sums[p.thread()]);
      p.sync();
      double before = 1, s = 0;
      for (int t = 0; t < p.thread(); ++t) before *= products[t];
      for (int t = p.threads() - 1; t > p.thread(); --t) s = sums[t] + products[t] * s;
      p.sync();  // another row of this instance writes the same memory
      for (int64_t last = end; last > begin; last -= kPiece) {
        const int64_t first = last - kPiece > begin ? last - kPiece : begin;
        double here = before;
        for (int64_t c = begin; c < first; ++c) here *= factor(c);
        double after[kPiece];
        TW_UNROLL
        for (int i = kPiece - 1; i >= 0; --i)
          if (first + i < last) {
            after[i] = g(first + i) + s;
            s = after[i] * factor(first + i);
          }
        TW_UNROLL
        for (int i = 0; i < kPiece; ++i)
          if (first + i < last) {
            const double at = here;
            here *= factor(first + i);
            x_grad(first + i) = T(C(at * after[i]));
          }
      }
    }
  };
};

}  // namespace tw::kernels
