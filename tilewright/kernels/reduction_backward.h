// Gradients of reductions over the last axis: each row of x_grad from one element of grad. One
// program per row; of sums, whose rows may lie side by side in memory, one per block of columns.
#pragma once

#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/fold_and_map.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// Blocks of x_grad whose rows lie side by side in memory, and so do the rows' elements of grad, at
/// one stride.
template <class P, class T>
struct SpreadColumns {
  bool takes = false;
  ColumnFolds<P, T> columns;
  int64_t stride = 0;  // of grad

  TW_INLINE SpreadColumns(const Rows<const T>& grad, const Rows<T>& x_grad) {
    Rows<const T> to;
    to.data = x_grad.data, to.rows = x_grad.rows, to.cols = x_grad.cols;
    to.col_stride = x_grad.col_stride, to.lead = x_grad.lead;
    for (int d = 0; d < to.lead; ++d) {
      to.lead_strides[d] = x_grad.lead_strides[d];
      to.lead_sizes[d] = x_grad.lead_sizes[d];
    }
    const int last = grad.lead - 1;
    takes = to.rows > 0 && ColumnSums<P, T>::pays(to) &&
            grad.lead_sizes[last] % to.lead_sizes[to.lead - 1] == 0;
    if (!takes) return;
    columns.cut = ColumnSums<P, T>(to);
    stride = grad.lead_strides[last];
  }
};

/// What a GPU runs of a kernel that spreads; the host chooses how.
template <class P, class Kernel>
struct SpreadingKernel {
  static constexpr int kColumns = 1, kGpuWays = 2;
  Kernel kernel;
  decltype(kernel.template columns<P>()) by;

  TW_INLINE explicit SpreadingKernel(const Kernel& of) : kernel(of), by(of.template columns<P>()) {}
  TW_INLINE int way() const { return by.takes ? kColumns : 0; }
  template <class OnWay>
  TW_INLINE void operator()(OnWay p) const {
    if constexpr (OnWay::kWay == kColumns)
      kernel.spread(p, by);
    else
      kernel.spread(p);
  }
};

/// x_grad[r, c] = grad[r], or grad[r] / cols for a mean.
template <class T, bool kMean>
struct SumBackward {
  using C = tile::compute_t<T>;
  Rows<const T> grad;  // [*]
  Rows<const T> x;     // [*, cols], for its shape
  int64_t dim;         // the caller moved this dimension into the last place
  Rows<T> x_grad;      // [*, cols]

  template <class P>
  TW_DEVICE SpreadColumns<P, T> columns() const {
    return {grad, x_grad};
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine& machine) const {
    if (const auto by = columns<P>(); by.takes) return by.columns.plan_of_maps();
    const int64_t groups =
        x_grad.cols > 0 ? tile::row_groups<P>(x_grad.rows, x_grad.cols, machine) : 0;
    return tile::plan_of(groups).over(x_grad.cols);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const auto by = columns<P>();
    by.takes ? spread(p, by) : spread(p);
  }
  template <tile::Program P>
  TW_DEVICE SpreadingKernel<P, SumBackward> prepared() const
    requires(P::kOnGpu)
  {
    return SpreadingKernel<P, SumBackward>(*this);
  }

  /// Over some rows.
  template <class P>
  TW_INLINE void spread(P p) const {
    const auto group = tile::row_group(p, x_grad.rows, x_grad.cols);
    for (int64_t i = group.first; i < group.last; ++i) {
      const auto all = tile::splat<typename P::template Vec<C>>(share(grad(i, 0)));
      const auto run = [&](const auto& row) {
        tile::for_row<C>(p, row, [&](auto at) { tile::store(p, row, at, all); });
      };
      tile::with_rows<C>(p, run, x_grad.row(i));
    }
  }
  /// Over a block of rows.
  template <class P, class Columns>
  TW_INLINE void spread(P p, const Columns& by) const {
    const auto block = by.columns.block(p.index());
    const int64_t inner = by.columns.cut.inner;
    const View<const T, 1> from{
        grad.row(block.which * inner + block.begin).data, {block.columns}, {by.stride}};
    const tile::RowsApart<T> to = block.of(x_grad, inner);
    if constexpr (P::kOnGpu) {
      tile::map_columns<C>(
          p, [&](int column) { return share(from(column)); }, block.rows, [](C all) { return all; },
          to);
    } else {
      tile::for_row<C>(p, to.first,
                       [&](auto at) { tile::store(p, to.first, at, share(tile::load(from, at))); });
      for (int64_t r = 1; r < block.rows; ++r)
        __builtin_memcpy(to.first.data + r * to.stride, to.first.data,
                         size_t(block.columns) * sizeof(T));
    }
  }

 private:
  template <class V>
  TW_INLINE auto share(V of) const {
    if constexpr (tile::same_type<V, T>)
      return C(of) / (kMean ? static_cast<C>(x_grad.cols) : C(1));
    else
      return of / (kMean ? static_cast<C>(x_grad.cols) : C(1));
  }
};

/// See fold_and_map.h: how many elements of x are the maximum, which is an operand of as many.
template <class T>
struct AmaxGradientByFold {
  using C = tile::compute_t<T>;
  using Fold = FoldBy<C, tile::Sum>;
  using Known = C;
  Rows<const T> grad;

  template <class V>
  TW_INLINE static V term(const V& v, const V& high) {
    return tile::select(v == high, tile::splat<V>(1), V{});
  }
  template <class P>
  TW_INLINE Known known(int64_t row, C count) const {
    return C(grad(row, 0)) / count;
  }
  template <class V>
  TW_INLINE static V map(C share, const V& v, const V& high) {
    return tile::select(v == high, tile::splat<V>(share), V{});
  }
};

/// grad[r] shared evenly by the elements of x[r] that are the maximum.
template <class T>
struct AmaxBackward {
  static constexpr int kGpuRegisters = 128;  // for columns
  using C = tile::compute_t<T>;
  Rows<const T> grad;    // [*]
  Rows<const T> x;       // [*, cols]
  Rows<const T> output;  // [*]
  int64_t dim;           // the caller moved this dimension into the last place
  Rows<T> x_grad;        // [*, cols], may alias x

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, x_grad);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu)
      if (const auto by = mapping<P>(); by.takes()) return by.plan(x_grad);
    if (ColumnBlock<P, T>::takes(x)) return ColumnBlock<P, T>::plan(x);
    return tile::plan_of(x.rows, tile::kept_bytes<P, C, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    if (ColumnBlock<P, T>::takes(x)) return run_block(p);
#endif
    const auto run = [&](const auto& in, const auto& outs) {
      using V = typename P::template Vec<C>;
      const V high = tile::splat<V>(C(output(p.index(), 0))), one = tile::splat<V>(C(1));
      const auto from = tile::keep_row<C>(p, in.row(p.index()));
      const auto to = outs.row(p.index());
      const C count = tile::reduce_row<C>(p, tile::Sum{}, from, [&](auto at) {
        return tile::select(V(tile::load(from, at)) == high, one, V{});
      });
      const V share = tile::splat<V>(C(grad(p.index(), 0)) / count);
      tile::for_row<C>(p, from, [&](auto at) {
        tile::store(p, to, at, tile::select(V(tile::load(from, at)) == high, share, V{}));
      });
    };
    tile::run_rows(p, *this, run);
  }

  /// On a GPU the host chooses how.
  template <class P>
  TW_DEVICE FoldAndMap<P, T, AmaxGradientByFold<T>> mapping() const {
    return FoldAndMap<P, T, AmaxGradientByFold<T>>(x_grad, x, highs());
  }
  template <tile::Program P>
  TW_DEVICE MappingKernel<P, AmaxBackward> prepared() const
    requires(P::kOnGpu)
  {
    return MappingKernel<P, AmaxBackward>(*this);
  }
  template <class P, class M>
  TW_INLINE void map(P p, const M& by) const {
    by.run(p, AmaxGradientByFold<T>{grad}, x_grad, x, highs());
  }

 private:
#if !defined(__CUDACC__)
  template <class P>
  TW_INLINE void run_block(P p) const {
    const ColumnBlock<P, T> block(p, x);
    alignas(64) typename ColumnBlock<P, T>::Totals highest, shares;
    for (int64_t i = 0; i < block.count; ++i) highest[i] = C(output(block.first + i, 0));
    const auto high = block.row(highest), share = block.row(shares);
    const auto where_high = [&](auto v, auto of, auto at) TW_INLINED {
      using V = decltype(v + v);
      return tile::select(v == tile::load(high, at), V(of), V{});
    };
    block.reduce(p, tile::Sum{}, shares, [&](auto v, auto at) TW_INLINED {
      return where_high(v, tile::splat<decltype(v + v)>(C(1)), at);
    });
    for (int64_t i = 0; i < block.count; ++i) shares[i] = C(grad(block.first + i, 0)) / shares[i];
    block.map(p, x_grad,
              [&](auto v, auto at) TW_INLINED { return where_high(v, tile::load(share, at), at); });
  }
#endif
  /// output for each element of x.
  TW_INLINE Rows<const T> highs() const {
    Rows<const T> out = output;
    out.cols = x.cols, out.col_stride = 0;
    return out;
  }
};

}  // namespace tw::kernels
