// Logarithm of softmax over the last axis.
//
//   out[r, c] = x[r, c] - log(sum_c exp(x[r, c]))
//
// On a GPU one program per row, which it keeps. On a CPU the exponentials of a row are added up in
// the loop that writes the row before it, as softmax does.
#pragma once

#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/fold_and_map.h"
#include "tilewright/kernels/fold_exponentials.h"
#include "tilewright/kernels/row_logsumexp.h"
#include "tilewright/kernels/row_pipeline.h"

namespace tw::kernels {

/// See fold_and_map.h.
template <class C>
struct LogSoftmaxByFold {
  using Fold = FoldExponentials<C>;
  using Known = LogSumExp<C>;
  template <class V>
  TW_INLINE static V term(const V& v) {
    return v;
  }
  template <class P>
  TW_INLINE static Known known(int64_t, const Exponentials<C>& of) {
    return {of.high, scalar_log<C, P>(of.total)};
  }
  template <class V>
  TW_INLINE static V map(const Known& by, const V& v) {
    return (v - by.high) - by.log_sum;
  }
};

template <class T>
struct LogSoftmax {
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
    return tile::plan_of(groups, tile::kept_bytes<P, C, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu) {
      const auto run = [&](const auto& in, const auto& outs) {
        const auto to = outs.row(p.index());
        const auto row = tile::keep_row<C>(p, in.row(p.index()));
        C high = C(-__builtin_inf()), total = 0;
        add_exponentials(p, row, high, total);
        tile::for_row<C>(p, row, difference(p, row, to, {high, scalar_log<C, P>(total)}));
      };
      tile::run_rows(p, *this, run);
    } else {
#if !defined(__CUDACC__)
      if (ColumnBlock<P, T>::takes(x)) return run_block(p);
#endif
      const auto run = [&](const auto& from, const auto& to) { run_group(p, from, to); };
      tile::run_rows(p, *this, run);
    }
  }

  /// On a GPU the host chooses how.
  template <class P>
  TW_DEVICE FoldAndMap<P, T, LogSoftmaxByFold<C>> mapping() const {
    return FoldAndMap<P, T, LogSoftmaxByFold<C>>(out, x);
  }
  template <tile::Program P>
  TW_DEVICE MappingKernel<P, LogSoftmax> prepared() const
    requires(P::kOnGpu)
  {
    return MappingKernel<P, LogSoftmax>(*this);
  }
  template <class P, class M>
  TW_INLINE void map(P p, const M& by) const {
    by.run(p, LogSoftmaxByFold<C>{}, out, x);
  }

 private:
#if !defined(__CUDACC__)
  template <class P>
  TW_INLINE void run_block(P p) const {
    const ColumnBlock<P, T> block(p, x);
    ColumnExponentials<P, T> of(p, block);
    const auto highs = block.row(of.high), logs = block.row(of.total);
    tile::for_row<C>(p, block.count, [&](auto at) TW_INLINED {
      tile::store_cached(logs, at, tile::log(tile::load(logs, at)));
    });
    block.map(p, out, [&](auto v, auto at) TW_INLINED {
      return (v - tile::load(highs, at)) - tile::load(logs, at);
    });
  }
#endif
  template <class P, class Row, class To>
  TW_INLINE static auto difference(P p, const Row& row, const To& to, LogSumExp<C> less) {
    // In two steps: where the maximum is large, adding the logarithm to it would lose digits.
    return [p, &row, to, less](auto at) TW_INLINED {
      tile::store(p, to, at, (tile::load(row, at) - less.high) - less.log_sum);
    };
  }

  template <class P, class In, class To>
  TW_INLINE void run_group(P p, const In& in, const To& to) const {
    const auto group = tile::row_group(p, x.rows, x.cols);
    pipeline_rows<C, tile::kMathChains>(
        p, tile::Sum{}, group,
        [&](int64_t i) {
          const auto row = in.row(i);
          return HighRow<decltype(in.row(i))>{
              row, tile::reduce_elements<C>(p, tile::MaxOfNumbers{}, row)};
        },
        [&](int64_t i, const auto& row) {
          const auto ahead = in.row(i + 1 < group.last ? i + 1 : i);
          return [p, ahead, &row](auto at) TW_INLINED {
            tile::prefetch(p, ahead, at);
            return tile::exp_nonpositive(tile::load(row, at) - row.high);
          };
        },
        [&](int64_t i, const auto& row, C total) {
          return difference(p, row, to.row(i), {row.high, scalar_log<C, P>(total)});
        });
  }

  /// A row and its largest element.
  template <class Row>
  struct HighRow : Row {
    C high;
  };
};

}  // namespace tw::kernels
