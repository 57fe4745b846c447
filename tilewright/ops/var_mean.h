#pragma once

#include <algorithm>
#include <cmath>

#include "tilewright/kernels/var_mean.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The variance along one dimension, of C - correction degrees of freedom, and the mean; its root,
/// the standard deviation, if asked for.
struct VarMean : ReducedDim<2> {
  static constexpr Schema kSchema{
      "var_mean(x: T[*, C], dim: i64 = -1, correction: f32 = 1, root: bool = false) -> var: T[*], "
      "mean: T[*]"};
  static constexpr Gradient kGradient{
      "var_mean_backward(x, var_grad=var.grad, mean_grad=mean.grad, dim, correction, root) -> "
      "x.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::VarMean<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    const double n = double(k.x.cols);
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double sum = 0, squares = 0;
      for (int64_t c = 0; c < k.x.cols; ++c) sum += double(k.x(r, c));
      for (int64_t c = 0; c < k.x.cols; ++c) squares += std::pow(double(k.x(r, c)) - sum / n, 2);
      const double variance = squares / std::max(n - double(k.correction), 0.0);
      k.var(r, 0) = T(k.root ? std::sqrt(variance) : variance);
      k.mean(r, 0) = T(sum / n);
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x, 1, 4);
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8"},
                                        {"no columns", "*=3 C=0"},
                                        {"one element", "*=4 C=1"},
                                        {"one element, no correction", "*=4 C=1 correction=0"},
                                        {"partial span only", "*=3 C=5 correction=0"},
                                        {"standard deviation", "*=2x3 C=45 root=1"},
                                        {"three blocks", "*=5 C=9001"},
                                        {"parts of rows", "*=2 C=70001"},
                                        {"first dimension", "*=7x3 C=5 dim=0"},
                                        {"columns in blocks", "*=40 C=600 dim=0"},
                                        {"small parts", "*=260x33 C=33 dim=1"},
                                        {"columns for all threads", "*=520x32 C=32 dim=1"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/hidden", "*=2048 C=4096"},
                                        {"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
