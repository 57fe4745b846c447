#pragma once

#include <cmath>

#include "tilewright/kernels/softmax_backward.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// The gradient of softmax, from its output: output * (grad - sum(grad * output)). `x_grad` may
/// alias an argument.
struct SoftmaxBackward : AlongDim<> {
  static constexpr Schema kSchema{
      "softmax_backward(grad: T[*, C], output: T[*, C], dim: i64 = -1) -> x_grad: T[*, C]"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::SoftmaxBackward<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.grad.rows; ++r) {
      double total = 0;
      for (int64_t c = 0; c < k.grad.cols; ++c)
        total += double(k.grad(r, c)) * double(k.output(r, c));
      for (int64_t c = 0; c < k.grad.cols; ++c)
        k.x_grad(r, c) = T(double(k.output(r, c)) * (double(k.grad(r, c)) - total));
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x_grad, 3, 4);
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8"},
                                        {"no columns", "*=3 C=0"},
                                        {"one element", "*=1 C=1"},
                                        {"partial span only", "*=2 C=5"},
                                        {"three blocks", "*=2 C=9001"},
                                        {"few short rows", "*=3 C=520"},
                                        {"few long rows", "*=2 C=4104"},
                                        {"many rows", "*=2x130 C=520"},
                                        {"many rows of several warps", "*=2x130 C=2056"},
                                        {"long rows", "*=2 C=16392"},
                                        {"long rows of four bytes", "*=3 C=8200"},
                                        {"rows in groups", "*=100 C=75"},
                                        {"first dimension", "*=7x3 C=5 dim=0"},
                                        {"rows that columns share", "*=2x260 C=300 dim=1"},
                                        {"columns that lanes share", "*=70x33 C=256 dim=1"},
                                        {"spans and a tail", "*=2x3 C=45"}};
  static constexpr Case kWorkloads[] = {{"attention scores", "*=32x512 C=512"},
                                        {"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
