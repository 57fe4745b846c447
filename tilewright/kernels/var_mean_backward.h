// The gradients of the variance of each row, or of its root, and of the mean:
//
//   x_grad = 2 var_grad (x - mean) / (cols - correction) + mean_grad / cols
//
// One program per row, unless a CPU has columns to reduce (column_block.h); on a GPU, where
// elements of rows lie side by side or rows are long and few, by a fold.
#pragma once

#include "tilewright/kernels/fold_and_map.h"
#include "tilewright/kernels/var_mean.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class T>
struct VarMeanBackward {
  static constexpr int kGpuRegisters = 128;  // for columns
  using C = tile::compute_t<T>;

  Rows<const T> x;          // [*, cols]
  Rows<const T> var_grad;   // [*], or no data
  Rows<const T> mean_grad;  // [*], or no data
  int64_t dim;              // the caller moved this dimension into the last place
  float correction;
  bool root;       // var is the root
  Rows<T> x_grad;  // [*, cols], may alias x

  /// x_grad is (x - center) * factor + of_mean, where there is a factor.
  struct Known {
    C center, factor, of_mean;
  };

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, x_grad);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu)
      if (const auto by = mapping<P>(); by.takes()) return by.plan(x_grad);
    if (ColumnBlock<P, T>::takes(x)) return ColumnBlock<P, T>::plan(x);
    return tile::plan_of(x.cols > 0 ? x.rows : 0, tile::kept_bytes<P, C, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    if (ColumnBlock<P, T>::takes(x)) return run_block(p);
#endif
    const auto run = [&](const auto& in, const auto& outs) {
      const auto row = tile::keep_row<C>(p, in.row(p.index()));
      const auto to = outs.row(p.index());
      C center = 0, squares = 0;
      if (var_grad)
        center =
            tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) { return tile::load(row, at); }) /
            static_cast<C>(x.cols);
      if (var_grad && root)
        squares = tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) {
          const auto d = tile::load(row, at) - center;
          return d * d;
        });
      const Known known = known_of(p.index(), center, squares);
      tile::for_row<C>(p, row, [&](auto at) {
        const auto v = tile::load(row, at);
        using V = decltype(v + v);
        tile::store(p, to, at, x_grad_of(known, V(v)));
      });
    };
    tile::run_rows(p, *this, run);
  }

  TW_INLINE Known known_of(int64_t row, C center, C squares) const {
    const C n = static_cast<C>(x.cols);
    return {center, var_grad ? slope(squares, n) * C(var_grad(row, 0)) : C(0),
            mean_grad ? C(mean_grad(row, 0)) / n : C(0)};
  }
  template <class V>
  TW_INLINE static V x_grad_of(const Known& known, const V& v) {
    const V of_var = known.factor != C(0) ? V((v - known.center) * known.factor) : V{};
    return of_var + known.of_mean;
  }

  /// See fold_and_map.h.
  struct ByFold {
    using Fold = FoldSquares<C>;
    using Known = typename VarMeanBackward::Known;
    const VarMeanBackward& kernel;

    template <class V>
    TW_INLINE static V term(const V& v) {
      return v;
    }
    template <class P>
    TW_INLINE Known known(int64_t row, const typename Fold::State& of) const {
      return kernel.known_of(row, kernel.var_grad ? of.sum / of.count : C(0), of.squares);
    }
    template <class V>
    TW_INLINE static V map(const Known& by, const V& v) {
      return x_grad_of(by, v);
    }
  };
  /// On a GPU the host chooses how.
  template <class P>
  TW_DEVICE FoldAndMap<P, T, ByFold> mapping() const {
    return FoldAndMap<P, T, ByFold>(x_grad, x);
  }
  template <tile::Program P>
  TW_DEVICE MappingKernel<P, VarMeanBackward> prepared() const
    requires(P::kOnGpu)
  {
    return MappingKernel<P, VarMeanBackward>(*this);
  }
  template <class P, class M>
  TW_INLINE void map(P p, const M& by) const {
    by.run(p, ByFold{*this}, x_grad, x);
  }

 private:
#if !defined(__CUDACC__)
  template <class P>
  TW_INLINE void run_block(P p) const {
    using Block = ColumnBlock<P, T>;
    const Block block(p, x);
    alignas(64) typename Block::Totals centers{}, factors{}, shifts{};
    const auto center = block.row(centers), factor = block.row(factors), shift = block.row(shifts);
    if (var_grad) {
      block.reduce(p, tile::Sum{}, centers, [](auto v, auto) { return v; });
      for (int64_t i = 0; i < block.count; ++i) centers[i] /= static_cast<C>(x.cols);
    }
    if (var_grad && root)
      block.reduce(p, tile::Sum{}, factors, [&](auto v, auto at) TW_INLINED {
        const auto d = v - tile::load(center, at);
        return d * d;
      });
    for (int64_t i = 0; i < block.count; ++i) {
      const Known known = known_of(block.first + i, centers[i], factors[i]);
      factors[i] = known.factor, shifts[i] = known.of_mean;
    }
    block.map(p, x_grad, [&](auto v, auto at) TW_INLINED {
      using V = decltype(v + v);
      const V by = tile::load(factor, at);
      const V of_var = tile::select(by == V{}, V{}, V((v - tile::load(center, at)) * by));
      return of_var + tile::load(shift, at);
    });
  }
#endif
  /// d var / d x over x - mean. A row of equal elements has no deviation, nor a slope of it.
  TW_INLINE C slope(C squares, C n) const {
    const C freedom = n - C(correction);
    if (!root) return 2 / freedom;
    const C deviation = tile::sqrt(squares / (freedom > C(0) ? freedom : C(0)));
    return deviation == C(0) ? C(0) : 1 / (freedom * deviation);
  }
};

}  // namespace tw::kernels
