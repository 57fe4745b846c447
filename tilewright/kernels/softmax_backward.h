// Gradients of softmax and of its logarithm, from their outputs y:
//
//   softmax      x_grad = y (grad - sum_c grad y)
//   log_softmax  x_grad = grad - e^y sum_c grad
//
// On a CPU the sum of a row is found in the loop that writes the row before it, unless there are
// columns to reduce (column_block.h).
#pragma once

#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/fold_and_map.h"
#include "tilewright/kernels/row_pipeline.h"
#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// See fold_and_map.h.
template <class C, class F>
struct SoftmaxGradientByFold {
  using Fold = FoldBy<C, tile::Sum>;
  using Known = C;
  template <class V>
  TW_INLINE static V term(const V& grad, const V& y) {
    return F::term_of(grad, y);
  }
  template <class P>
  TW_INLINE static Known known(int64_t, C total) {
    return total;
  }
  template <class V>
  TW_INLINE static V map(C total, const V& grad, const V& y) {
    return F::x_grad(grad, y, total);
  }
};

/// The skeleton of both. F has term(p, grad, y, at), which is summed, and
/// x_grad(grad, y, sum): of a row's views and the place, and of vectors; term_of(grad, y) of these.
template <class T, class F>
struct SoftmaxGradient {
  static constexpr int kGpuRegisters = 128;  // two rows are kept
  using C = tile::compute_t<T>;
  Rows<const T> grad;    // [*, cols]
  Rows<const T> output;  // [*, cols]
  int64_t dim;           // the caller moved this dimension into the last place
  Rows<T> x_grad;        // [*, cols], may alias grad or output

  template <class G>
  TW_INLINE auto row_operands(G&& g) const {
    return g(grad, output, x_grad);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    if constexpr (P::kOnGpu)
      if (const auto by = mapping<P>(); by.takes()) return by.plan(x_grad);
    if (ColumnBlock<P, T>::takes(grad, output)) return ColumnBlock<P, T>::plan(grad);
    const int64_t groups = grad.cols > 0 ? tile::row_groups<P>(grad.rows, grad.cols, machine) : 0;
    return tile::plan_of(groups, 2 * tile::kept_bytes<P, C, T>(grad.cols))
        .over_row(grad.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    if (ColumnBlock<P, T>::takes(grad, output)) return run_block(p);
#endif
    const auto group = tile::row_group(p, grad.rows, grad.cols);
    const auto run = [&](const auto& grads, const auto& outputs, const auto& to) {
      pipeline_rows<C, tile::kMathChains>(
          p, tile::Sum{}, group,
          [&](int64_t i) {
            return both(tile::keep_row<C>(p, grads.row(i)),
                        tile::keep_row<C>(p, outputs.row(i), 1));
          },
          [&](int64_t, const auto& row) {
            return [p, &row](auto at) TW_INLINED { return F::term(p, row.grad(), row.y, at); };
          },
          [&](int64_t i, const auto& row, C total) {
            return [p, &row, total, target = to.row(i)](auto at) TW_INLINED {
              tile::store(p, target, at,
                          F::x_grad(tile::load(row.grad(), at), tile::load(row.y, at), total));
            };
          });
    };
    tile::run_rows(p, *this, run);
  }

  /// On a GPU the host chooses how.
  template <class P>
  TW_DEVICE FoldAndMap<P, T, SoftmaxGradientByFold<C, F>> mapping() const {
    return FoldAndMap<P, T, SoftmaxGradientByFold<C, F>>(x_grad, grad, output);
  }
  template <tile::Program P>
  TW_DEVICE MappingKernel<P, SoftmaxGradient> prepared() const
    requires(P::kOnGpu)
  {
    return MappingKernel<P, SoftmaxGradient>(*this);
  }
  template <class P, class M>
  TW_INLINE void map(P p, const M& by) const {
    by.run(p, SoftmaxGradientByFold<C, F>{}, x_grad, grad, output);
  }

 private:
#if !defined(__CUDACC__)
  template <class P>
  TW_INLINE void run_block(P p) const {
    const ColumnBlock<P, T> block(p, grad);
    alignas(64) typename ColumnBlock<P, T>::Totals totals;
    block.reduce(
        p, tile::Sum{}, totals, [](auto g, auto y, auto) TW_INLINED { return F::term_of(g, y); },
        output);
    const auto sums = block.row(totals);
    block.map(
        p, x_grad,
        [&](auto g, auto y, auto at) TW_INLINED { return F::x_grad(g, y, tile::load(sums, at)); },
        output);
  }
#endif
  template <class Grad, class Y>
  struct Both : Grad {
    Y y;
    TW_INLINE const Grad& grad() const { return *this; }
  };
  template <class Grad, class Y>
  TW_INLINE static Both<Grad, Y> both(const Grad& grad, const Y& y) {
    return {grad, y};
  }
};

struct OfSoftmax {
  template <class P, class Grad, class Y, class At>
  TW_INLINE static auto term(P, const Grad& grad, const Y& y, const At& at) {
    return tile::load(grad, at) * tile::load(y, at);
  }
  template <class V>
  TW_INLINE static V term_of(const V& grad, const V& y) {
    return grad * y;
  }
  template <class V, class C>
  TW_INLINE static V x_grad(const V& grad, const V& y, C total) {
    return y * (grad - total);
  }
};
struct OfLogSoftmax {
  template <class P, class Grad, class Y, class At>
  TW_INLINE static auto term(P p, const Grad& grad, const Y& y, const At& at) {
    tile::prefetch(p, y, at);
    return tile::load(grad, at);
  }
  template <class V>
  TW_INLINE static V term_of(const V& grad, const V&) {
    return grad;
  }
  template <class V, class C>
  TW_INLINE static V x_grad(const V& grad, const V& y, C total) {
    return grad - tile::exp_nonpositive(y) * total;
  }
};

template <class T>
using SoftmaxBackward = SoftmaxGradient<T, OfSoftmax>;
template <class T>
using LogSoftmaxBackward = SoftmaxGradient<T, OfLogSoftmax>;

}  // namespace tw::kernels
