#pragma once

#include <cmath>

#include "tilewright/kernels/reduce_backward.h"
#include "tilewright/ops/reduce.h"

namespace tw::ops {

/// The gradient of reduce: amin and norm_inf share grad evenly among the elements that they found,
/// as PyTorch does. `x_grad` may alias `x`.
struct ReduceBackward : AlongDim<1> {
  static constexpr Schema kSchema{
      "reduce_backward(grad: T[*], x: T[*, C], function: amin|prod|norm1|norm2|norm_inf|logsumexp, "
      "dim: i64 = -1) -> x_grad: T[*, C]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::ReduceBackward<T>;

  using Row = Reduce::Row;
  static Row product(const Row& row) {
    Row slopes(row.size(), 1);
    for (size_t i = 0; i < row.size(); ++i)
      for (size_t j = 0; j < row.size(); ++j) slopes[i] *= i == j ? 1 : row[j];
    return slopes;
  }
  /// What d result / d row[i] is, the result being that of the definition.
  static Row slopes(int function, const Row& row) {
    if (function == 1) return product(row);
    const double result = Reduce::kDefinitions[size_t(function)](row);
    double equal = 0;
    for (const double x : row) equal += x == result || (function == 4 && -x == result);
    Row out;
    for (const double x : row) {
      const double sign = double(x > 0) - double(x < 0);
      if (function == 0) out.push_back(x == result ? 1 / equal : result != result ? result : 0);
      if (function == 2) out.push_back(sign);
      if (function == 3) out.push_back(result == 0 ? 0 : x / result);
      if (function == 4) out.push_back(std::fabs(x) == result ? sign / equal : 0);
      if (function == 5) out.push_back(std::exp(x - result));
    }
    return out;
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    Row row(static_cast<size_t>(k.x.cols));
    for (int64_t r = 0; r < k.x.rows; ++r) {
      for (int64_t c = 0; c < k.x.cols; ++c) row[static_cast<size_t>(c)] = double(k.x(r, c));
      const Row by = slopes(k.function, row);
      for (int64_t c = 0; c < k.x.cols; ++c)
        k.x_grad(r, c) = T(double(k.grad(r, 0)) * by[static_cast<size_t>(c)]);
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x_grad, 2, 4);
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "*=0 C=8 function=amin"},
      {"no columns", "*=3 C=0 function=logsumexp"},
      {"one element", "*=4 C=1 function=prod"},
      {"minimum", "*=2x3 C=45 function=amin"},
      {"product", "*=3 C=21 function=prod"},
      {"sum of magnitudes", "*=3 C=45 function=norm1"},
      {"length", "*=3 C=45 function=norm2"},
      {"largest magnitude", "*=3 C=45 function=norm_inf"},
      {"logarithm", "*=3 C=45 function=logsumexp"},
      {"three blocks", "*=5 C=9001 function=logsumexp"},
      {"columns, minimum", "*=41x41 C=41 function=amin dim=1"},
      {"columns, sum of magnitudes", "*=41x41 C=41 function=norm1 dim=1"},
      {"columns, length", "*=41x41 C=41 function=norm2 dim=1"},
      {"columns, largest magnitude", "*=41x41 C=41 function=norm_inf dim=1"},
      {"columns, logarithm", "*=41x41 C=41 function=logsumexp dim=1"},
      {"columns, product", "*=19x19 C=19 function=prod dim=1"},
      {"blocks of columns", "*=300 C=300 function=logsumexp dim=0"},
      {"columns for all threads", "*=520x32 C=32 function=logsumexp dim=1"},
      {"long rows", "*=2 C=70001 function=norm_inf"},
      {"first dimension", "*=5x5 C=5 function=norm2 dim=0"}};
  static constexpr Case kWorkloads[] = {{"64 MiB", "*=4096 C=4096 function=norm2"}};
};

}  // namespace tw::ops
