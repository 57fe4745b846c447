// The variance of each row, or its root, and the mean. The mean first and then the squares of the
// differences, as in layer_norm.h, one program per row, unless a CPU has columns to reduce
// (column_block.h); on a GPU, which reads a row once, by a fold.
#pragma once

#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/folds.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// A sum, and the sum of the squares of differences from the mean (Chan, Golub & LeVeque, 1979).
template <class C>
struct FoldSquares {
  struct Running {
    C sum, squares;
  };
  struct State {
    C count, sum, squares;
  };
  TW_INLINE Running start() const { return {}; }
  template <int kAhead>
  TW_INLINE void add(Running& known, const C (&v)[kAhead], const tile::FoldedRows& rows) const {
    C some[kAhead];
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) some[a] = a < rows.count ? v[a] : C(0);
    const C sum = fold_some<tile::Sum, kAhead>(some);
    const C count = C(rows.count), seen = C(rows.seen), center = sum / count;
    TW_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      const C d = a < rows.count ? v[a] - center : C(0);
      some[a] = d * d;
    }
    C squares = fold_some<tile::Sum, kAhead>(some);
    if (rows.seen > 0) {
      const C d = center - known.sum * (1 / seen);
      squares += known.squares + d * (d * (seen * count / (seen + count)));
    }
    known = {known.sum + sum, squares};
  }
  TW_INLINE State state(const Running& known, int seen) const {
    return {C(seen), known.sum, known.squares};
  }
  TW_INLINE void combine(State& state, const State& other) const {
    const C both = state.count + other.count;
    if (other.count == C(0)) return;
    if (state.count == C(0)) {
      state = other;
      return;
    }
    const C d = other.sum / other.count - state.sum / state.count;
    state.squares += other.squares + d * (d * (state.count * other.count / both));
    state.sum += other.sum;
    state.count = both;
  }
};

template <class T>
struct VarMean {
  using C = tile::compute_t<T>;

  Rows<const T> x;   // [*, cols]
  int64_t dim;       // the caller moved this dimension into the last place
  float correction;  // the sum of squares is divided by cols - correction
  bool root;
  Rows<T> var;   // [*]
  Rows<T> mean;  // [*]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu) return Folds<P, T>(x).template plan<typename FoldSquares<C>::State>();
    if (ColumnBlock<P, T>::takes(x)) return ColumnBlock<P, T>::plan(x);
    return tile::plan_of(x.rows, tile::kept_bytes<P, C, T>(x.cols));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    if (ColumnBlock<P, T>::takes(x)) return run_block(p);
#endif
    const auto run = [&](const auto& from) {
      const auto row = tile::keep_row<C>(p, from);
      const C n = static_cast<C>(x.cols);
      const C sum =
          tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) { return tile::load(row, at); });
      const C center = sum / n;
      const C squares = tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) {
        const auto d = tile::load(row, at) - center;
        return d * d;
      });
      put(p.index(), center, squares);
    };
    tile::with_rows<C>(p, run, x.row(p.index()));
  }

  /// On a GPU the host chooses how.
  template <tile::Program P>
  TW_DEVICE FoldingKernel<P, T, VarMean> prepared() const
    requires(P::kOnGpu)
  {
    return FoldingKernel<P, T, VarMean>(*this);
  }
  template <class P, class F>
  TW_INLINE void fold(P p, const F& folds) const {
    folds.run(p, FoldSquares<C>{},
              [&](int64_t i, const auto& state) { put(i, state.sum / C(x.cols), state.squares); });
  }

 private:
#if !defined(__CUDACC__)
  template <class P>
  TW_INLINE void run_block(P p) const {
    const ColumnBlock<P, T> block(p, x);
    alignas(64) typename ColumnBlock<P, T>::Totals centers, squares;
    block.reduce(p, tile::Sum{}, centers, [](auto v, auto) { return v; });
    for (int64_t i = 0; i < block.count; ++i) centers[i] /= static_cast<C>(x.cols);
    const auto means = block.row(centers);
    block.reduce(p, tile::Sum{}, squares, [&](auto v, auto at) TW_INLINED {
      const auto d = v - tile::load(means, at);
      return d * d;
    });
    for (int64_t i = 0; i < block.count; ++i) put(block.first + i, centers[i], squares[i]);
  }
#endif
  TW_INLINE void put(int64_t row, C center, C squares) const {
    const C freedom = static_cast<C>(x.cols) - C(correction);
    const C variance = squares / (freedom > C(0) ? freedom : C(0));
    var(row, 0) = T(root ? tile::sqrt(variance) : variance);
    mean(row, 0) = T(center);
  }
};

}  // namespace tw::kernels
