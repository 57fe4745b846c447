#pragma once

#include <cmath>
#include <vector>

#include "tilewright/kernels/rms_norm_backward.h"
#include "tilewright/ops/core/norm.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Gradients of rms_norm. `residual_grad` is added to `x_grad`, which may alias `grad`, `x` or
/// `residual_grad`.
struct RmsNormBackward {
  static constexpr Schema kSchema{
      "rms_norm_backward(grad: T[*, C], x: T[*, C], weight: T[C], residual_grad: T[*, C]?, "
      "eps: f32 = 1e-6) -> x_grad: T[*, C], weight_grad: T[C]?"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::RmsNormBackward<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    return supports_eps(k.eps);
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    const int64_t cols = k.x.cols;
    std::vector<double> weight_grad(size_t(cols), 0.0);
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double squares = 0, product = 0;
      for (int64_t c = 0; c < cols; ++c) {
        squares += std::pow(double(k.x(r, c)), 2);
        product += double(k.grad(r, c)) * double(k.weight(c)) * double(k.x(r, c));
      }
      const double rms = std::sqrt(squares / double(cols) + double(k.eps));
      for (int64_t c = 0; c < cols; ++c) {
        const double grad = double(k.grad(r, c)), normal = double(k.x(r, c)) / rms;
        const double mean = product / rms / double(cols);
        const double residual = k.residual_grad ? double(k.residual_grad(r, c)) : 0;
        weight_grad[size_t(c)] += grad * normal;
        k.x_grad(r, c) = T((grad * double(k.weight(c)) - normal * mean) / rms + residual);
      }
    }
    for (int64_t c = 0; k.weight_grad && c < cols; ++c)
      k.weight_grad(c) = T(weight_grad[size_t(c)]);
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.x.rows) * double(k.x.cols);
    return {.flops = 13 * n,
            .bytes = double(sizeof(T)) * ((k.residual_grad ? 4 : 3) * n + double(k.x.cols))};
  }

  // Where eps is small beside a row of one element, the gradient is the difference of equals.
  static constexpr Case kEdgeCases[] = {
      {"no rows", "*=0 C=8 eps=1 +weight_grad"},
      {"no columns", "*=3 C=0 eps=1 +weight_grad"},
      {"one element", "*=1 C=1 eps=1 +weight_grad"},
      {"x alone", "*=2 C=5 eps=1"},
      {"residual", "*=9 C=45 eps=1 +residual_grad"},
      {"blocks of rows", "*=7x23 C=45 eps=1 +weight_grad"},
      {"many blocks of rows", "*=1100 C=37 eps=1 +weight_grad"},
      {"columns in two programs", "*=2x3 C=1031 +weight_grad +residual_grad"},
      {"columns of several blocks", "*=5 C=8200 eps=1 +weight_grad"},
      {"odd columns of several blocks", "*=3 C=8203 eps=1 +weight_grad +residual_grad"},
      {"many rows of few lanes", "*=3x131 C=64 +weight_grad"},
      {"many rows of half a warp", "*=700 C=96 +weight_grad +residual_grad"},
      {"many rows of a span and of two", "*=300 C=256 +weight_grad"},
      {"many rows of less than 1 KiB", "*=300 C=504 +weight_grad"},
      {"rows of a warp", "*=2x260 C=520 +weight_grad +residual_grad"},
      {"rows of three warps", "*=2x260 C=2056"},
      {"one short row", "*=1 C=520 +weight_grad +residual_grad"},
      {"few short rows", "*=131 C=520 +weight_grad"},
      {"few long rows", "*=3 C=4104 +weight_grad +residual_grad"},
      {"rows of two blocks and of four", "*=5 C=16392 +weight_grad +residual_grad"},
      {"rows of four blocks and of more", "*=2 C=33000 +weight_grad"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/training", "*=2048 C=4096 +weight_grad"},
                                        {"64 MiB", "*=4096 C=4096 +weight_grad"},
                                        {"64 MiB, x alone", "*=4096 C=4096"}};
};

}  // namespace tw::ops
