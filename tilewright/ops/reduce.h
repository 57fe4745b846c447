#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "tilewright/kernels/reduce.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// One number of all elements along one dimension; amin and the norms propagate NaN.
struct Reduce : ReducedDim<> {
  static constexpr Schema kSchema{
      "reduce(x: T[*, C], function: amin|prod|norm1|norm2|norm_inf|logsumexp, dim: i64 = -1) -> "
      "out: "
      "T[*]"};
  static constexpr Gradient kGradient{"reduce_backward(grad=out.grad, x, function, dim) -> x.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Reduce<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    if (k.function == 0 && k.x.cols == 0 && k.x.rows > 0)
      return Support::no("C = 0, but nothing has no minimum");
    return Support::yes();
  }

  using Row = std::vector<double>;
  template <class F>
  static double fold(const Row& row, double start, F&& f) {
    for (const double v : row) start = f(start, v);
    return start;
  }
  static double larger(double a, double b) { return a != a || a > b ? a : b; }
  static double logsumexp(const Row& row) {
    const double most = fold(row, -std::numeric_limits<double>::infinity(), larger);
    if (!std::isfinite(most)) return most;
    return most +
           std::log(fold(row, 0, [=](double s, double v) { return s + std::exp(v - most); }));
  }
  static constexpr auto kDefinitions = std::to_array<double (*)(const Row&)>(
      {[](const Row& row) {
         return -fold(row, -std::numeric_limits<double>::infinity(),
                      [](double a, double b) { return larger(a, -b); });
       },
       [](const Row& row) { return fold(row, 1, [](double a, double b) { return a * b; }); },
       [](const Row& row) {
         return fold(row, 0, [](double a, double b) { return a + std::fabs(b); });
       },
       [](const Row& row) {
         return std::sqrt(fold(row, 0, [](double a, double b) { return a + b * b; }));
       },
       [](const Row& row) {
         return fold(row, 0, [](double a, double b) { return larger(a, std::fabs(b)); });
       },
       logsumexp});
  static_assert(kDefinitions.size() == kernels::RowFunctions::kCount);

  template <class T>
  static void reference(const Kernel<T>& k) {
    Row row(static_cast<size_t>(k.x.cols));
    for (int64_t r = 0; r < k.x.rows; ++r) {
      for (int64_t c = 0; c < k.x.cols; ++c) row[static_cast<size_t>(c)] = double(k.x(r, c));
      k.out(r, 0) = T(kDefinitions[static_cast<size_t>(k.function)](row));
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x, 1, 2);
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "*=0 C=8 function=amin"},
      {"no columns", "*=3 C=0 function=logsumexp"},
      {"nothing has no norm", "*=3 C=0 function=norm_inf"},
      {"one element", "*=4 C=1 function=amin"},
      {"minimum", "*=2x3 C=45 function=amin"},
      {"product", "*=3 C=45 function=prod"},
      {"sum of magnitudes", "*=3 C=45 function=norm1"},
      {"length", "*=3 C=45 function=norm2"},
      {"largest magnitude", "*=3 C=45 function=norm_inf"},
      {"logarithm", "*=3 C=45 function=logsumexp"},
      {"three blocks", "*=5 C=9001 function=logsumexp"},
      {"parts of rows", "*=2 C=70001 function=logsumexp"},
      {"parts of a norm", "*=2 C=70001 function=norm2"},
      {"first dimension", "*=7x3 C=5 function=norm2 dim=0"},
      {"columns in blocks", "*=40 C=600 function=logsumexp dim=0"},
      {"smallest of columns", "*=3x7 C=300 function=amin dim=0"},
      {"sums of many rows", "*=2x300 C=77 function=norm1 dim=1"},
      {"small parts", "*=260x33 C=33 function=logsumexp dim=1"},
      {"columns for all threads", "*=520x32 C=32 function=norm2 dim=1"}};
  static constexpr Case kWorkloads[] = {
      {"llama-3.1-8b/vocabulary", "*=4 C=128256 function=logsumexp"},
      {"64 MiB", "*=4096 C=4096 function=norm2"}};
};

}  // namespace tw::ops
