// The gradient of one number of each row (kernels/reduce.h), which is worked out again rather than
// read: rounded, a logarithm or a norm would not be exact enough. One program per row, unless a CPU
// has columns to reduce (column_block.h); on a GPU, where elements of rows lie side by side or rows
// are long and few, by a fold.
#pragma once

#include "tilewright/kernels/column_block.h"
#include "tilewright/kernels/fold_and_map.h"
#include "tilewright/kernels/fold_maximum.h"
#include "tilewright/kernels/fold_nonzero_product.h"
#include "tilewright/kernels/reduce.h"

namespace tw::kernels {

template <class V>
TW_INLINE V sign_of(V x) {
  const V one = tile::splat<V>(1);
  return tile::select(x > V{}, one, tile::select(x < V{}, -one, V{}));
}

/// What the gradients of a row's elements are made of: two numbers of the row, and its own.
template <class C>
struct OfRow {
  C a, b, grad;
};
/// How many elements of the row f maps to 1; f gives 1 or 0.
template <class C, class P, class Row, class F>
TW_INLINE C count_of_row(P p, const Row& row, F&& f) {
  return tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) { return f(tile::load(row, at)); });
}
/// a where the mask is, else 0.
template <class V, class M>
TW_INLINE V where(M mask, V a) {
  return tile::select(mask, a, V{});
}
template <class V, class M>
TW_INLINE V one_where(M mask) {
  return where(mask, tile::splat<V>(1));
}
struct Negative {
  template <class C>
  TW_INLINE C operator()(C v) const {
    return -v;
  }
};

/// Of a number of a row, or of a vector of several rows'.
template <class V, class C>
TW_INLINE V vector_of(const C& c) {
  if constexpr (tile::same_type<V, C>)
    return c;
  else
    return tile::splat<V>(c);
}

// Each has row(), of a row's elements, block(), of those of a block of columns, and state(), of
// what Fold knows of them; map() gives the gradient of an element.

/// Shared evenly by the elements equal to the least; NaN where that is NaN.
struct GradOfLeast {
  template <class C>
  using Fold = FoldMaximum<C, Negative>;

  template <class C, class P, class Row>
  TW_INLINE static OfRow<C> row(P p, const Row& row, C grad) {
    const C low = LeastOfRow{}.template operator()<C>(p, row);
    const auto is_least = [low](auto x) {
      using V = decltype(x);
      return one_where<V>(x == tile::splat<V>(low));
    };
    return {low, count_of_row<C>(p, row, is_least), grad};
  }
  template <class P, class B>
  TW_INLINE static void block(P p, const B& of, typename B::Totals& a, typename B::Totals& b) {
    of.reduce(p, tile::Min{}, a, [](auto v, auto) { return v; });
    const auto low = of.row(a);
    of.reduce(p, tile::Sum{}, b, [&](auto v, auto at) TW_INLINED {
      using V = decltype(v + v);
      return one_where<V>(v == tile::load(low, at));
    });
  }
  template <class P, class C>
  TW_INLINE static OfRow<C> state(const Maximum<C>& of, C grad) {
    return {-of.high, of.count, grad};
  }
  template <class C, class V>
  TW_INLINE static V map(const OfRow<C>& of, const V& x) {
    return one_where<V>(x == vector_of<V>(of.a)) * of.grad / of.b;
  }
};
/// The product of the others: of a row with one zero all but the zero's are 0, of more all are.
struct GradOfProduct {
  template <class C>
  using Fold = FoldNonzeroProduct<C>;

  template <class C, class P, class Row>
  TW_INLINE static OfRow<C> row(P p, const Row& row, C grad) {
    const C zeros = count_of_row<C>(p, row, [](auto x) {
      using V = decltype(x);
      return one_where<V>(x == V{});
    });
    const C product = tile::reduce_row<C>(p, tile::Product{}, row, [&](auto at) {
      const auto x = tile::load(row, at);
      using V = decltype(x + x);
      return tile::select(x == V{}, tile::splat<V>(1), V(x));
    });
    return {product, zeros, grad};
  }
  template <class P, class B>
  TW_INLINE static void block(P p, const B& of, typename B::Totals& a, typename B::Totals& b) {
    of.reduce(p, tile::Product{}, a, [](auto v, auto) TW_INLINED {
      using V = decltype(v + v);
      return tile::select(v == V{}, tile::splat<V>(1), V(v));
    });
    of.reduce(p, tile::Sum{}, b, [](auto v, auto) TW_INLINED {
      using V = decltype(v + v);
      return one_where<V>(v == V{});
    });
  }
  template <class P, class C>
  TW_INLINE static OfRow<C> state(const NonzeroProduct<C>& of, C grad) {
    return {of.product, of.zeros, grad};
  }
  template <class C, class V>
  TW_INLINE static V map(const OfRow<C>& of, const V& x) {
    const V a = vector_of<V>(of.a), b = vector_of<V>(of.b), grad = vector_of<V>(of.grad);
    const V of_zero = where(b == tile::splat<V>(1), V(grad * a)), of_others = where(b == V{}, grad);
    return tile::select(x == V{}, of_zero, V(of_others * (a / x)));
  }
};
struct GradOfNorm1 {
  template <class C>
  using Fold = FoldBy<C, tile::Sum>;  // of which nothing is used

  template <class C, class P, class Row>
  TW_INLINE static OfRow<C> row(P, const Row&, C grad) {
    return {C(0), C(0), grad};
  }
  template <class P, class B>
  TW_INLINE static void block(P, const B&, typename B::Totals&, typename B::Totals&) {}
  template <class P, class C>
  TW_INLINE static OfRow<C> state(C, C grad) {
    return {C(0), C(0), grad};
  }
  template <class C, class V>
  TW_INLINE static V map(const OfRow<C>& of, const V& x) {
    return sign_of(x) * of.grad;
  }
};
/// 0 of a row of zeros.
struct GradOfNorm2 {
  template <class C>
  using Fold = FoldBy<C, tile::Sum, Square>;

  template <class C, class P, class Row>
  TW_INLINE static OfRow<C> row(P p, const Row& row, C grad) {
    return { NormOfOrder2{}.template operator()<C>(p, row), C(0), grad };
  }
  template <class P, class B>
  TW_INLINE static void block(P p, const B& of, typename B::Totals& a, typename B::Totals&) {
    of.reduce(p, tile::Sum{}, a, [](auto v, auto) { return v * v; });
    for (int64_t i = 0; i < of.count; ++i) a[i] = tile::sqrt(a[i]);
  }
  template <class P, class C>
  TW_INLINE static OfRow<C> state(C squares, C grad) {
    return {tile::sqrt(squares), C(0), grad};
  }
  template <class C, class V>
  TW_INLINE static V map(const OfRow<C>& of, const V& x) {
    const V norm = vector_of<V>(of.a);
    return tile::select(norm == V{}, V{}, V((x / norm) * of.grad));
  }
};
/// Shared evenly by the elements of the largest magnitude; 0 where that is NaN.
struct GradOfNormInfinity {
  template <class C>
  using Fold = FoldMaximum<C, Magnitude>;

  template <class C, class P, class Row>
  TW_INLINE static OfRow<C> row(P p, const Row& row, C grad) {
    const C norm = NormOfOrderInfinity{}.template operator()<C>(p, row);
    const auto is_largest = [norm](auto x) {
      using V = decltype(x);
      return one_where<V>(magnitude(x) == tile::splat<V>(norm));
    };
    return {norm, count_of_row<C>(p, row, is_largest), grad};
  }
  template <class P, class B>
  TW_INLINE static void block(P p, const B& of, typename B::Totals& a, typename B::Totals& b) {
    of.reduce(p, tile::Max{}, a, [](auto v, auto) { return magnitude(v); });
    const auto norm = of.row(a);
    of.reduce(p, tile::Sum{}, b, [&](auto v, auto at) TW_INLINED {
      using V = decltype(v + v);
      return one_where<V>(magnitude(v) == tile::load(norm, at));
    });
  }
  template <class P, class C>
  TW_INLINE static OfRow<C> state(const Maximum<C>& of, C grad) {
    return {of.high, of.count, grad};
  }
  template <class C, class V>
  TW_INLINE static V map(const OfRow<C>& of, const V& x) {
    return where(magnitude(x) == vector_of<V>(of.a), V(sign_of(x) / of.b)) * of.grad;
  }
};
/// By the softmax of the row.
struct GradOfLogSumExp {
  template <class C>
  using Fold = FoldExponentials<C>;

  template <class C, class P, class Row>
  TW_INLINE static OfRow<C> row(P p, const Row& row, C grad) {
    const LogSumExp<C> parts = row_logsumexp<C>(p, row);
    return {parts.high, parts.high < C(__builtin_inf()) ? parts.log_sum : C(0), grad};
  }
  template <class P, class B>
  TW_INLINE static void block(P p, const B& of, typename B::Totals& a, typename B::Totals& b) {
    using C = typename B::C;
    const ColumnExponentials<P, typename B::Element> parts(p, of);
    for (int64_t i = 0; i < of.count; ++i) {
      a[i] = parts.high[i];
      b[i] = a[i] < C(__builtin_inf()) ? scalar_log<C, P>(parts.total[i]) : C(0);
    }
  }
  template <class P, class C>
  TW_INLINE static OfRow<C> state(const Exponentials<C>& of, C grad) {
    return {of.high, of.high < C(__builtin_inf()) ? scalar_log<C, P>(of.total) : C(0), grad};
  }
  template <class C, class V>
  TW_INLINE static V map(const OfRow<C>& of, const V& x) {
    return tile::exp_nonpositive((x - of.a) - of.b) * of.grad;
  }
};

/// In the order of the schema of ops/reduce.h.
using RowGrads = OneOf<GradOfLeast, GradOfProduct, GradOfNorm1, GradOfNorm2, GradOfNormInfinity,
                       GradOfLogSumExp>;
static_assert(RowGrads::kCount == RowFunctions::kCount);

/// See fold_and_map.h.
template <class T, class Of>
struct ReduceGradientByFold {
  using C = tile::compute_t<T>;
  using Fold = typename Of::template Fold<C>;
  using Known = OfRow<C>;
  Rows<const T> grad;

  template <class V>
  TW_INLINE static V term(const V& v) {
    return v;
  }
  template <class P>
  TW_INLINE Known known(int64_t row, const typename Fold::State& of) const {
    return Of::template state<P>(of, C(grad(row, 0)));
  }
  template <class V>
  TW_INLINE static V map(const Known& by, const V& v) {
    return Of::map(by, v);
  }
};

template <class T>
struct ReduceBackward {
  using C = tile::compute_t<T>;

  Rows<const T> grad;  // [*]
  Rows<const T> x;     // [*, cols]
  int function;
  int64_t dim;     // the caller moved this dimension into the last place
  Rows<T> x_grad;  // [*, cols], may alias x

  template <class F>
  TW_INLINE auto row_operands(F&& f) const {
    return f(x, x_grad);
  }
  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (P::kOnGpu)
      if (const auto by = mapping<P>(); by.takes()) return by.plan(x_grad);
    if (ColumnBlock<P, T>::takes(x)) return ColumnBlock<P, T>::plan(x);
    return tile::plan_of(x.cols > 0 ? x.rows : 0, logsumexp_scratch<P, C, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
#if !defined(__CUDACC__)
    if (ColumnBlock<P, T>::takes(x))
      return RowGrads::choose(function, [&](auto of) { run_block(p, of); });
#endif
    const C g = C(grad(p.index(), 0));
    const auto run = [&](const auto& in, const auto& outs) {
      const auto row = in.row(p.index());
      const auto to = outs.row(p.index());
      RowGrads::choose(function, [&](auto of) {
        const OfRow<C> known = of.template row<C>(p, row, g);
        tile::for_row<C>(p, row, [&](auto at) {
          const auto v = tile::load(row, at);
          using V = decltype(v + v);
          tile::store(p, to, at, of.map(known, V(v)));
        });
      });
    };
    tile::run_rows(p, *this, run);
  }

  /// On a GPU the host chooses how.
  template <class P>
  TW_DEVICE FoldAndMap<P, T, ReduceGradientByFold<T, GradOfLogSumExp>> mapping() const {
    return FoldAndMap<P, T, ReduceGradientByFold<T, GradOfLogSumExp>>(x_grad, x);
  }
  template <tile::Program P>
  TW_DEVICE MappingKernel<P, ReduceBackward> prepared() const
    requires(P::kOnGpu)
  {
    return MappingKernel<P, ReduceBackward>(*this);
  }
  template <class P, class M>
  TW_INLINE void map(P p, const M& by) const {
    RowGrads::choose(function, [&](auto of) {
      by.run(p, ReduceGradientByFold<T, decltype(of)>{grad}, x_grad, x);
    });
  }

#if !defined(__CUDACC__)
 private:
  template <class P, class Of>
  TW_INLINE void run_block(P p, Of) const {
    const ColumnBlock<P, T> block(p, x);
    alignas(64) typename ColumnBlock<P, T>::Totals a{}, b{}, grads{};
    Of::block(p, block, a, b);
    for (int64_t i = 0; i < block.count; ++i) grads[i] = C(grad(block.first + i, 0));
    const auto as = block.row(a), bs = block.row(b), gs = block.row(grads);
    block.map(p, x_grad, [&](auto v, auto at) TW_INLINED {
      using V = decltype(v + v);
      return Of::map(OfRow<V>{tile::load(as, at), tile::load(bs, at), tile::load(gs, at)}, V(v));
    });
  }
#endif
};

}  // namespace tw::kernels
