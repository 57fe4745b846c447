#pragma once

#include <cmath>

#include "tilewright/kernels/gelu.h"
#include "tilewright/ops/core/elementwise.h"

namespace tw::ops {

/// x Φ(x), Φ the normal distribution's, exact or by its tanh approximation. `out` may alias `x`.
struct Gelu {
  static constexpr Schema kSchema{"gelu(x: T[...], approximate: none|tanh = none) -> out: T[...]"};
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16};
  static constexpr Gradient kGradient{"gelu_backward(grad=out.grad, x, approximate) -> x.grad"};
  using Types = FloatCombos;

  template <class T>
  using Kernel = kernels::GeluElementwise<T>;

  static double define(double x, bool approximate) {
    if (approximate)
      return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    return 0.5 * x * std::erfc(-x * 0.70710678118654752);
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.out.rows; ++r)
      for (int64_t c = 0; c < k.out.cols; ++c)
        k.out(r, c) = T(define(double(k.x(r, c)), k.approximate != 0));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return elementwise_cost(k.out, 2, 24);
  }

  static constexpr Case kEdgeCases[] = {{"empty", "x=[3,0]"},
                                        {"exact", "x=[3,45]"},
                                        {"tanh", "x=[3,45] approximate=tanh"},
                                        {"two blocks", "x=[20001]"},
                                        {"tanh, two blocks", "x=[20001] approximate=tanh"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/mlp", "x=[2048,14336]"},
                                        {"gpt2/decode", "x=[1,3072] approximate=tanh"},
                                        {"gpt2/batch-16", "x=[16,3072] approximate=tanh"},
                                        {"gpt2/batch-32", "x=[32,3072] approximate=tanh"},
                                        {"gpt2/batch-64", "x=[64,3072] approximate=tanh"},
                                        {"64 MiB", "x=[4096,4096]"}};
};

}  // namespace tw::ops
