#pragma once

#include <cmath>
#include <vector>

#include "tilewright/kernels/layer_norm_backward.h"
#include "tilewright/ops/core/elementwise.h"
#include "tilewright/ops/core/norm.h"

namespace tw::ops {

/// Gradients of layer_norm. `x_grad` may alias `grad` or `x`.
struct LayerNormBackward {
  static constexpr Schema kSchema{
      "layer_norm_backward(grad: T[*, C], x: T[*, C], weight: T[C]?, eps: f32 = 1e-5) -> "
      "x_grad: T[*, C], weight_grad: T[C]?, bias_grad: T[C]?"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;
  /// Of two columns, whatever their gradients, only what eps takes from a difference is left.
  static constexpr double kOperandTolerance = 0x1p-21;

  template <class T>
  using Kernel = kernels::LayerNormBackward<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    return supports_eps(k.eps);
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    const int64_t cols = k.x.cols;
    const double n = double(cols);
    std::vector<double> weight_grad(size_t(cols), 0.0), bias_grad(size_t(cols), 0.0);
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double sum = 0, squares = 0, grads = 0, products = 0;
      for (int64_t c = 0; c < cols; ++c) sum += double(k.x(r, c));
      for (int64_t c = 0; c < cols; ++c) squares += std::pow(double(k.x(r, c)) - sum / n, 2);
      const double deviation = std::sqrt(squares / n + double(k.eps));
      const auto normal = [&](int64_t c) { return (double(k.x(r, c)) - sum / n) / deviation; };
      const auto scaled = [&](int64_t c) {
        return double(k.grad(r, c)) * (k.weight ? double(k.weight(c)) : 1);
      };
      for (int64_t c = 0; c < cols; ++c) {
        grads += scaled(c);
        products += scaled(c) * normal(c);
        weight_grad[size_t(c)] += double(k.grad(r, c)) * normal(c);
        bias_grad[size_t(c)] += double(k.grad(r, c));
      }
      for (int64_t c = cols; c-- > 0;) {  // from the end: x_grad may be x
        const double y = normal(c);
        k.x_grad(r, c) = T((scaled(c) - grads / n - y * products / n) / deviation);
      }
    }
    for (int64_t c = 0; c < cols; ++c) {
      if (k.weight_grad) k.weight_grad(c) = T(weight_grad[size_t(c)]);
      if (k.bias_grad) k.bias_grad(c) = T(bias_grad[size_t(c)]);
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.x, 3, 18);
  }

  // Where eps is small beside rows of one or two elements, the gradient is a difference of equals.
  static constexpr Case kEdgeCases[] = {
      {"no rows", "*=0 C=8 eps=1 +weight_grad +bias_grad"},
      {"no columns", "*=3 C=0 eps=1 +weight +weight_grad"},
      {"one element", "*=1 C=1 eps=1 +weight +bias_grad"},
      {"x alone", "*=2 C=5 eps=1"},
      {"weight alone", "*=9 C=45 eps=1 +weight +weight_grad"},
      {"bias alone", "*=9 C=45 eps=1 +bias_grad"},
      {"many blocks of rows", "*=1100 C=37 eps=1 +weight +weight_grad +bias_grad"},
      {"columns in two programs", "*=2x3 C=1031 +weight +weight_grad +bias_grad"},
      {"columns of several blocks", "*=5 C=8200 +weight +weight_grad +bias_grad"},
      {"odd columns of several blocks", "*=3 C=8203 +weight +weight_grad"},
      {"many rows of few lanes", "*=3x131 C=64 +weight +weight_grad +bias_grad"},
      {"many rows of half a warp", "*=700 C=96 +weight +weight_grad +bias_grad"},
      {"many rows of a span and of two", "*=300 C=256 +weight +weight_grad +bias_grad"},
      {"many rows of less than 1 KiB", "*=300 C=504 +weight +weight_grad +bias_grad"},
      {"rows of a warp", "*=2x260 C=520 +weight +weight_grad +bias_grad"},
      {"rows of three warps", "*=2x260 C=2056 +bias_grad"},
      {"one short row", "*=1 C=520 +weight +weight_grad +bias_grad"},
      {"few short rows", "*=131 C=520 +weight_grad +bias_grad"},
      {"few long rows", "*=3 C=4104 +weight +weight_grad +bias_grad"},
      {"rows of two blocks and of four", "*=5 C=16392 +weight +weight_grad +bias_grad"},
      {"rows of four blocks and of more", "*=2 C=33000 +weight +weight_grad"}};
  static constexpr Case kWorkloads[] = {
      {"bert-base", "*=512 C=768 +weight +weight_grad +bias_grad"},
      {"64 MiB", "*=4096 C=4096 +weight +weight_grad +bias_grad"}};
};

}  // namespace tw::ops
