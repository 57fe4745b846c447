// The gradient of sums, or products, of the elements of each row up to every one of them. With
//
//   s[c] = grad[c] + x[c + 1] s[c + 1]        what follows, with what stands before c divided out
//   p[c] = x[0] ... x[c - 1]
//
// x_grad[c] = p[c] s[c], zeros in x or not; for sums x is 1. In float64. On a CPU some rows at a
// time go from their ends to their beginnings and back, so that no row waits for itself; sums go by
// vectors, or, where rows lie side by side in memory, in a block of rows. On a GPU a row is a
// program whose threads have a stretch each, and first learn what the stretches on both sides come
// to; the gradient of sums is a scan from the end (scan_gpu.h).
#pragma once

#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/scan_gpu.h"
#include "tilewright/tile/tile.h"

#if !defined(__CUDACC__)
#include "tilewright/tile/cpu/reversed.h"
#endif

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
    if constexpr (P::kOnGpu)
      return tile::plan_of(x.cols > 0 ? x.rows : 0, 2 * kMostThreads * int64_t{sizeof(double)})
          .over(x.cols);
    if (x.cols == 0) return tile::plan_of(0);
    if (function == 1)
      return tile::plan_of((x.rows + kTogether - 1) / kTogether,
                           kTogether * x.cols * int64_t{sizeof(double)});
    return ColumnBlock<P, T>::takes(grad) ? ColumnBlock<P, T>::plan(grad) : tile::plan_of(x.rows);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if defined(__CUDACC__)
    if (function == 0) return scan_from_end(p);
    Row{grad.row(p.index()), x.row(p.index()), x_grad.row(p.index()), function == 1}.in_stretches(
        p);
#else
    if (function == 1) {
      const int64_t first = p.index() * kTogether, left = x.rows - first;
      if (left >= kTogether) return there_and_back<kTogether>(p, first);
      for (int64_t r = first; r < x.rows; ++r) there_and_back<1>(p, r);
    } else if (ColumnBlock<P, T>::takes(grad)) {
      sum_block(p);
    } else {
      sum_row(p, grad.row(p.index()), x_grad.row(p.index()));
    }
#endif
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

#if !defined(__CUDACC__)
  static constexpr int kTogether = 4;  // rows: multiplying and adding takes eight cycles

  template <int kRows, class P>
  TW_INLINE void there_and_back(P p, int64_t first) const {
    double* const after = p.template scratch<double>();  // [cols, kRows]
    View<const T, 1> g[kRows], f[kRows];
    View<T, 1> to[kRows];
    double s[kRows] = {}, before[kRows];
    for (int r = 0; r < kRows; ++r) {
      g[r] = grad.row(first + r);
      f[r] = x.row(first + r);
      to[r] = x_grad.row(first + r);
      before[r] = 1;
    }
    for (int64_t c = x.cols; c-- > 0;) {
      TW_UNROLL
      for (int r = 0; r < kRows; ++r) {
        after[c * kRows + r] = s[r] = double(C(g[r](c))) + s[r];
        s[r] *= double(C(f[r](c)));
      }
    }
    for (int64_t c = 0; c < x.cols; ++c) {
      TW_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const double here = before[r];
        before[r] *= double(C(f[r](c)));  // first, for x may be overwritten
        to[r](c) = T(C(here * after[c * kRows + r]));
      }
    }
  }

  /// Sums from the end of a row, by vectors whose lanes are turned round.
  template <class P>
  TW_INLINE static void sum_row(P p, const View<const T, 1>& from, const View<T, 1>& to) {
    constexpr int64_t kN = P::template kLanes<C>;
    double total = 0;
    const int64_t whole = from.size(0) / kN * kN;
    const auto add = [&](auto at) TW_INLINED {
      const auto v = tile::load(from, at);
      tile::store_cached(to, at, tile::reversed(tile::running_sums(p, tile::reversed(v), total)));
    };
    if (whole < from.size(0)) add(tile::Span<P, C, false>{whole, int(from.size(0) - whole)});
    for (int64_t c = whole - kN; c >= 0; c -= kN) add(tile::Span<P, C, true>{c, int(kN)});
  }
  /// The same of rows that lie side by side. Bits do not depend on how x_grad lies.
  template <class P>
  TW_INLINE void sum_block(P p) const {
    using Block = ColumnBlock<P, T>;
    const Block block(p, grad);
    const bool is_beside = Block::are_beside(grad, x_grad);
    alignas(64) double totals[Block::kMost] = {};
    alignas(64) C results[Block::kMost];
    for (int64_t c = grad.cols; c-- > 0;) {
      const auto from = block.row(grad, c);
      const auto add_to = [&](const auto& to) TW_INLINED {
        tile::for_row<C>(p, block.count, [&](auto at) TW_INLINED {
          const auto v = tile::load(from, at);
          tile::store_cached(to, at, tile::combine_totals<tile::Sum>(p, v, totals + at.offset));
        });
      };
      if (is_beside) {
        add_to(block.row(x_grad, c));
        continue;
      }
      add_to(block.row(results));
      for (int64_t i = 0; i < block.count; ++i) x_grad(block.first + i, c) = T(results[i]);
    }
  }
#endif

  struct Row {
    View<const T, 1> grad, x;
    View<T, 1> x_grad;
    bool is_product;

    TW_INLINE double factor(int64_t c) const { return is_product ? double(C(x(c))) : 1.0; }
    TW_INLINE double g(int64_t c) const { return double(C(grad(c))); }

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
