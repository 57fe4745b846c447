// The gradient of one number of each row (kernels/reduce.h), which is worked out again rather than
// read: rounded, a logarithm or a norm would not be exact enough. One program per row; on a GPU,
// where elements of rows lie side by side or rows are long and few, by a fold.
#pragma once

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
/// 1 or 0.
template <class V, class M>
TW_INLINE V one_where(M mask) {
  return tile::select(mask, tile::splat<V>(1), V{});
}
struct Negative {
  template <class C>
  TW_INLINE C operator()(C v) const {
    return -v;
  }
};

// Each has row(), of a row's elements, and state(), of what Fold knows of them; map() gives the
// gradient of an element.

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
  template <class P, class C>
  TW_INLINE static OfRow<C> state(const Maximum<C>& of, C grad) {
    return {-of.high, of.count, grad};
  }
  template <class C, class V>
  TW_INLINE static V map(const OfRow<C>& of, const V& x) {
    return one_where<V>(x == tile::splat<V>(of.a)) * of.grad / of.b;
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
  template <class P, class C>
  TW_INLINE static OfRow<C> state(const NonzeroProduct<C>& of, C grad) {
    return {of.product, of.zeros, grad};
  }
  template <class C, class V>
  TW_INLINE static V map(const OfRow<C>& of, const V& x) {
    const C of_zero = of.b == C(1) ? of.grad * of.a : C(0),
            of_others = of.b == C(0) ? of.grad : C(0);
    return tile::select(x == V{}, tile::splat<V>(of_zero), of_others * (of.a / x));
  }
};
struct GradOfNorm1 {
  template <class C>
  using Fold = FoldBy<C, tile::Sum>;  // of which nothing is used

  template <class C, class P, class Row>
  TW_INLINE static OfRow<C> row(P, const Row&, C grad) {
    return {C(0), C(0), grad};
  }
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
  template <class P, class C>
  TW_INLINE static OfRow<C> state(C squares, C grad) {
    return {tile::sqrt(squares), C(0), grad};
  }
  template <class C, class V>
  TW_INLINE static V map(const OfRow<C>& of, const V& x) {
    return of.a == C(0) ? V{} : V((x / of.a) * of.grad);
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
  template <class P, class C>
  TW_INLINE static OfRow<C> state(const Maximum<C>& of, C grad) {
    return {of.high, of.count, grad};
  }
  template <class C, class V>
  TW_INLINE static V map(const OfRow<C>& of, const V& x) {
    return tile::select(magnitude(x) == tile::splat<V>(of.a), sign_of(x) / of.b, V{}) * of.grad;
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
    return tile::plan_of(x.cols > 0 ? x.rows : 0, logsumexp_scratch<P, C, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
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
};

}  // namespace tw::kernels
