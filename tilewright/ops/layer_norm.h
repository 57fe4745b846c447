#pragma once

#include <cmath>

#include "tilewright/kernels/layer_norm.h"
#include "tilewright/ops/core/elementwise.h"
#include "tilewright/ops/core/norm.h"

namespace tw::ops {

/// Layer normalization over the last axis. `out` may alias `x`.
struct LayerNorm {
  static constexpr Schema kSchema{
      "layer_norm(x: T[*, C], weight: T[C]?, bias: T[C]?, eps: f32 = 1e-5) -> out: T[*, C]"};
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16};
  static constexpr Gradient kGradient{
      "layer_norm_backward(grad=out.grad, x, weight, eps) -> x.grad, weight.grad, bias.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::LayerNorm<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    return supports_eps(k.eps);
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    const double cols = double(k.x.cols);
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double sum = 0, squares = 0;
      for (int64_t c = 0; c < k.x.cols; ++c) sum += double(k.x(r, c));
      for (int64_t c = 0; c < k.x.cols; ++c) squares += std::pow(double(k.x(r, c)) - sum / cols, 2);
      const double deviation = std::sqrt(squares / cols + double(k.eps));
      for (int64_t c = 0; c < k.x.cols; ++c) {
        const double weight = k.weight ? double(k.weight(c)) : 1;
        const double bias = k.bias ? double(k.bias(c)) : 0;
        k.out(r, c) = T((double(k.x(r, c)) - sum / cols) / deviation * weight + bias);
      }
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 2, 8);
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "*=0 C=8 +weight +bias"},
      {"no columns", "*=3 C=0 +weight"},
      {"one element", "*=1 C=1 eps=1 +weight +bias"},
      {"partial span only", "*=2 C=5 eps=1"},
      {"weight alone", "*=3 C=45 eps=1 +weight"},
      {"bias alone", "*=3 C=45 eps=1 +bias"},
      {"unrolled spans and a tail", "*=2x3 C=1031 +weight +bias"},
      {"few short rows", "*=3 C=520 +weight +bias"},
      {"few long rows", "*=2 C=4104 +bias"},
      {"many rows", "*=2x130 C=520 +weight +bias"},
      {"many rows of several warps", "*=2x130 C=2056 +weight +bias"},
      {"long rows of four bytes", "*=3 C=8200 +weight +bias"},
      {"columns of several blocks", "*=3 C=16400 +weight +bias"},
      {"odd columns of several blocks", "*=2 C=16391 +weight"}};
  static constexpr Case kWorkloads[] = {
      {"bert-base", "*=512 C=768 +weight +bias"},    {"gpt2/decode", "*=1 C=768 +weight +bias"},
      {"gpt2/batch-16", "*=16 C=768 +weight +bias"}, {"gpt2/batch-32", "*=32 C=768 +weight +bias"},
      {"gpt2/batch-64", "*=64 C=768 +weight +bias"}, {"64 MiB", "*=4096 C=4096 +weight +bias"}};
};

}  // namespace tw::ops
