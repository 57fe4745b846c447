// Softmax over the last axis.
//
//   out[r, c] = exp(x[r, c] - max_c x[r, :]) / sum_c exp(x[r, c] - max_c x[r, :])
//
// Three passes over a row: its maximum; its exponentials and their sum; their quotients. On a CPU
// the exponentials of a row are computed in the loop that writes the row before it and begins to
// fetch the row after it, so that memory is busy while arithmetic is. Arithmetic in float32, so
// that a bf16 row keeps its small weights.
#pragma once

#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/fold_and_map.h"
#include "tilewright/kernels/fold_exponentials.h"
#include "tilewright/kernels/row_pipeline.h"
#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// See fold_and_map.h.
template <class C>
struct SoftmaxByFold {
  using Fold = FoldExponentials<C>;
  struct Known {
    C base, scale;
  };
  template <class V>
  TW_INLINE static V term(const V& v) {
    return v;
  }
  template <class P>
  TW_INLINE static Known known(int64_t, const Exponentials<C>& of) {
    return {Exponentials<C>::base_of(of.high), 1 / of.total};
  }
  template <class V>
  TW_INLINE static V map(const Known& by, const V& v) {
    return tile::exp_nonpositive(v - by.base) * by.scale;
  }
};

template <class T>
struct Softmax {
  using C = tile::compute_t<T>;

  Rows<const T> x;  // [*, cols]
  int64_t dim;      // the caller moved this dimension into the last place
  Rows<T> out;      // [*, cols], may alias x

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, out);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    if constexpr (P::kOnGpu)
      if (const auto by = mapping<P>(); by.takes()) return by.plan(out);
    if (ColumnBlock<P, T>::takes(x)) return ColumnBlock<P, T>::plan(x);
    const int64_t groups = x.cols > 0 ? tile::row_groups<P>(x.rows, x.cols, machine) : 0;
    return tile::plan_of(groups, tile::kept_bytes<P, C, T>(x.cols) +
                                     tile::memo_bytes<P, C>(2 * x.cols))  // this row and the next
        .over_row(x.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    if (ColumnBlock<P, T>::takes(x)) return run_block(p);
#endif
    const auto group = tile::row_group(p, x.rows, x.cols);
    const auto memo_of = [&](int64_t i) { return tile::memo<C>(p, x.cols, int(i % 2)); };
    const auto run = [&](const auto& in, const auto& to) {
      pipeline_rows<C, tile::kMathChains>(
          p, tile::Sum{}, group,
          [&](int64_t i) {
            const auto row = tile::keep_row<C>(p, in.row(i));
            const C high = tile::reduce_row<C, tile::kMathChains>(
                p, tile::MaxOfNumbers{}, row,
                [&](auto at) TW_INLINED { return tile::load(row, at); });
            return based(row, high);
          },
          [&](int64_t i, const auto& row) {
            const auto ahead = in.row(i + 1 < group.last ? i + 1 : i);
            return [&p, ahead, &row, memo = memo_of(i)](auto at) TW_INLINED {
              tile::prefetch(p, ahead, at);
              const auto weight = row.weight(at);
              memo.keep(at, weight);
              return weight;
            };
          },
          [&](int64_t i, const auto& row, C total) {
            return [&p, &row, scale = 1 / total, target = to.row(i),
                    memo = memo_of(i)](auto at) TW_INLINED {
              const auto weight = memo.recall(at, [&](auto here) { return row.weight(here); });
              tile::store(p, target, at, weight * scale);
            };
          });
    };
    tile::run_rows(p, *this, run);
  }

  /// On a GPU the host chooses how.
  template <class P>
  TW_DEVICE FoldAndMap<P, T, SoftmaxByFold<C>> mapping() const {
    return FoldAndMap<P, T, SoftmaxByFold<C>>(out, x);
  }
  template <tile::Program P>
  TW_DEVICE MappingKernel<P, Softmax> prepared() const
    requires(P::kOnGpu)
  {
    return MappingKernel<P, Softmax>(*this);
  }
  template <class P, class M>
  TW_INLINE void map(P p, const M& by) const {
    by.run(p, SoftmaxByFold<C>{}, out, x);
  }

 private:
#if !defined(__CUDACC__)
  template <class P>
  TW_INLINE void run_block(P p) const {
    const ColumnBlock<P, T> block(p, x);
    ColumnExponentials<P, T> of(p, block);
    const auto highs = block.row(of.high), scales = block.row(of.total);
    for (int64_t i = 0; i < block.count; ++i) of.total[i] = 1 / of.total[i];
    block.map(p, out, [&](auto v, auto at) TW_INLINED {
      return of.weight(v, tile::load(highs, at)) * tile::load(scales, at);
    });
  }
#endif
  /// A row, and what its exponents are counted from.
  template <class Row>
  struct Based : Row {
    C base;

    template <class At>
    TW_INLINE auto weight(At at) const {
      return tile::exp_below(tile::load(static_cast<const Row&>(*this), at), base);
    }
  };
  template <class Row>
  TW_INLINE static Based<Row> based(const Row& row, C high) {
    return {row, high == C(-__builtin_inf()) ? C(0) : high};  // -inf - -inf would be NaN
  }
};

}  // namespace tw::kernels
