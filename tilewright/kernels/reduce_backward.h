// The gradient of one number of each row (kernels/reduce.h), which is worked out again rather than
// read: rounded, a logarithm or a norm would not be exact enough. One program per row.
#pragma once

#include "tilewright/kernels/reduce.h"

namespace tw::kernels {

template <class V>
TW_INLINE V sign_of(V x) {
  const V one = tile::splat<V>(1);
  return tile::select(x > V{}, one, tile::select(x < V{}, -one, V{}));
}

/// How many elements of the row f maps to 1; f gives 1 or 0.
template <class C, class P, class Row, class F>
TW_INLINE C count_of_row(P p, const Row& row, F&& f) {
  return tile::reduce_row<C>(p, tile::Sum{}, row, [&](auto at) { return f(tile::load(row, at)); });
}

// Each calls write(f) with the gradient of an element as f(element).

/// Shared evenly by the elements equal to the least; NaN where that is NaN.
struct GradOfLeast {
  template <class C, class P, class Row, class F>
  TW_INLINE void operator()(P p, const Row& row, C grad, F&& write) const {
    const C low = LeastOfRow{}.template operator()<C>(p, row);
    const auto is_least = [low](auto x) {
      using V = decltype(x);
      return tile::select(x == tile::splat<V>(low), tile::splat<V>(1), V{});
    };
    const C count = count_of_row<C>(p, row, is_least);
    write([=](auto x) { return is_least(x) * grad / count; });
  }
};
/// The product of the others: of a row with one zero all but the zero's are 0, of more all are.
struct GradOfProduct {
  template <class C, class P, class Row, class F>
  TW_INLINE void operator()(P p, const Row& row, C grad, F&& write) const {
    const C zeros = count_of_row<C>(p, row, [](auto x) {
      using V = decltype(x);
      return tile::select(x == V{}, tile::splat<V>(1), V{});
    });
    const C rest = tile::reduce_row<C>(p, tile::Product{}, row, [&](auto at) {
      const auto x = tile::load(row, at);
      using V = decltype(x + x);
      return tile::select(x == V{}, tile::splat<V>(1), V(x));
    });
    const C of_zero = zeros == C(1) ? grad * rest : C(0), of_others = zeros == C(0) ? grad : C(0);
    write([=](auto x) {
      using V = decltype(x);
      return tile::select(x == V{}, tile::splat<V>(of_zero), of_others * (rest / x));
    });
  }
};
struct GradOfNorm1 {
  template <class C, class P, class Row, class F>
  TW_INLINE void operator()(P, const Row&, C grad, F&& write) const {
    write([=](auto x) { return sign_of(x) * grad; });
  }
};
/// 0 of a row of zeros.
struct GradOfNorm2 {
  template <class C, class P, class Row, class F>
  TW_INLINE void operator()(P p, const Row& row, C grad, F&& write) const {
    const C norm = NormOfOrder2{}.template operator()<C>(p, row);
    write([=](auto x) {
      using V = decltype(x);
      return norm == C(0) ? V{} : (x / norm) * grad;
    });
  }
};
/// Shared evenly by the elements of the largest magnitude; 0 where that is NaN.
struct GradOfNormInfinity {
  template <class C, class P, class Row, class F>
  TW_INLINE void operator()(P p, const Row& row, C grad, F&& write) const {
    const C norm = NormOfOrderInfinity{}.template operator()<C>(p, row);
    const auto is_largest = [norm](auto x) {
      using V = decltype(x);
      return tile::select(magnitude(x) == tile::splat<V>(norm), tile::splat<V>(1), V{});
    };
    const C count = count_of_row<C>(p, row, is_largest);
    write([=](auto x) {
      using V = decltype(x);
      return tile::select(is_largest(x) > V{}, sign_of(x) / count, V{}) * grad;
    });
  }
};
/// By the softmax of the row.
struct GradOfLogSumExp {
  template <class C, class P, class Row, class F>
  TW_INLINE void operator()(P p, const Row& row, C grad, F&& write) const {
    const LogSumExp<C> parts = row_logsumexp<C>(p, row);
    const C high = parts.high, log_sum = high < C(__builtin_inf()) ? parts.log_sum : C(0);
    write([=](auto x) { return tile::exp_nonpositive((x - high) - log_sum) * grad; });
  }
};

/// In the order of the schema of ops/reduce.h.
using RowGrads = OneOf<GradOfLeast, GradOfProduct, GradOfNorm1, GradOfNorm2, GradOfNormInfinity,
                       GradOfLogSumExp>;
static_assert(RowGrads::kCount == RowFunctions::kCount);

template <class T>
struct ReduceBackward {
  using C = tile::compute_t<T>;

  Rows<const T> grad;  // [*]
  Rows<const T> x;     // [*, cols]
  int function;
  int64_t dim;     // the caller moved this dimension into the last place
  Rows<T> x_grad;  // [*, cols], may alias x

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(x.cols > 0 ? x.rows : 0, logsumexp_scratch<P, C, T>(x.cols))
        .over_row(x.cols, tile::kKeptColumns<P, C, T>);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const C g = C(grad(p.index(), 0));
    const auto run = [&](const auto& row, const auto& to) {
      const auto write = [&](auto f) {
        tile::for_row<C>(p, row, [&](auto at) {
          const auto v = tile::load(row, at);
          using V = decltype(v + v);
          tile::store(p, to, at, f(V(v)));
        });
      };
      RowGrads::choose(function, [&](auto of) { of.template operator()<C>(p, row, g, write); });
    };
    tile::with_rows<C>(p, run, x.row(p.index()), x_grad.row(p.index()));
  }
};

}  // namespace tw::kernels
