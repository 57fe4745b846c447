#pragma once

#include <algorithm>
#include <cmath>

#include "tilewright/kernels/var_mean_backward.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The gradient of var_mean, from those of its results that have one. `x_grad` may alias `x`.
struct VarMeanBackward : AlongDim<> {
  static constexpr Schema kSchema{
      "var_mean_backward(x: T[*, C], var_grad: T[*]?, mean_grad: T[*]?, dim: i64 = -1, "
      "correction: f32 = 1, root: bool = false) -> x_grad: T[*, C]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::VarMeanBackward<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    const double n = double(k.x.cols), freedom = n - double(k.correction);
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double sum = 0, squares = 0;
      for (int64_t c = 0; c < k.x.cols; ++c) sum += double(k.x(r, c));
      for (int64_t c = 0; c < k.x.cols; ++c) squares += std::pow(double(k.x(r, c)) - sum / n, 2);
      double by_var = k.var_grad ? 2 * double(k.var_grad(r, 0)) / freedom : 0;
      const double deviation = std::sqrt(squares / std::max(freedom, 0.0));
      if (k.root) by_var = deviation == 0 ? 0 : by_var / (2 * deviation);
      const double by_mean = k.mean_grad ? double(k.mean_grad(r, 0)) / n : 0;
      for (int64_t c = 0; c < k.x.cols; ++c) {
        const double of_var = by_var == 0 ? 0 : by_var * (double(k.x(r, c)) - sum / n);
        k.x_grad(r, c) = T(of_var + by_mean);
      }
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x_grad, 2, 5);
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "*=0 C=8 +var_grad"},
      {"no columns", "*=3 C=0 +var_grad +mean_grad"},
      {"one element", "*=4 C=1 +var_grad +mean_grad"},
      {"one element, no correction", "*=4 C=1 correction=0 +var_grad"},
      {"mean alone", "*=3 C=5 +mean_grad"},
      {"neither", "*=3 C=5"},
      {"standard deviation", "*=2x3 C=45 root=1 +var_grad +mean_grad"},
      {"three blocks", "*=5 C=9001 +var_grad"},
      {"first dimension", "*=5x5 C=5 dim=0 +var_grad +mean_grad"},
      {"columns", "*=41x41 C=41 dim=1 +mean_grad"},
      {"columns for all threads", "*=520x32 C=32 dim=1 +var_grad +mean_grad"},
      {"blocks of columns", "*=300 C=300 dim=0 root=1 +var_grad +mean_grad"},
      {"long rows", "*=2 C=70001 +var_grad"}};
  static constexpr Case kWorkloads[] = {{"64 MiB", "*=4096 C=4096 +var_grad"}};
};

}  // namespace tw::ops
