#pragma once

#include <cmath>

#include "tilewright/kernels/rms_norm.h"
#include "tilewright/ops/core/norm.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Root-mean-square normalization over the last axis. `out` may alias `x`.
struct RmsNorm {
  static constexpr Schema kSchema{
      "rms_norm(x: T[*, C], weight: T[C], eps: f32 = 1e-6) -> out: T[*, C]"};
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16};
  static constexpr Gradient kGradient{
      "rms_norm_backward(grad=out.grad, x, weight, eps) -> x.grad, weight.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::RmsNorm<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    return supports_eps(k.eps);
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < k.x.cols; ++c) sum += std::pow(double(k.x(r, c)), 2);
      const double rms = std::sqrt(sum / double(k.x.cols) + double(k.eps));
      for (int64_t c = 0; c < k.x.cols; ++c)
        k.out(r, c) = T(double(k.x(r, c)) / rms * double(k.weight(c)));
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.x.rows) * double(k.x.cols);
    return {.flops = 4 * n, .bytes = double(sizeof(T)) * (2 * n + double(k.x.cols))};
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8"},
                                        {"no columns", "*=3 C=0"},
                                        {"one element", "*=1 C=1 eps=1"},
                                        {"partial span only", "*=2 C=5"},
                                        {"single spans and a tail", "*=3 C=45"},
                                        {"unrolled spans and a tail", "*=2x3 C=1031"},
                                        {"few short rows", "*=3 C=520"},
                                        {"few long rows", "*=2 C=4104"},
                                        {"many rows", "*=2x130 C=520"},
                                        {"many rows of several warps", "*=2x130 C=2056"},
                                        {"long rows", "*=2 C=16392"},
                                        {"long rows of four bytes", "*=3 C=8200"},
                                        {"large eps", "*=4 C=64 eps=10"}};
  static constexpr Case kWorkloads[] = {{"smollm2-135m/decode", "*=1 C=576"},
                                        {"llama-3.1-8b/decode", "*=1 C=4096"},
                                        {"llama-3.1-8b/batch-16", "*=16 C=4096"},
                                        {"llama-3.1-8b/batch-32", "*=32 C=4096"},
                                        {"llama-3.1-8b/batch-64", "*=64 C=4096"},
                                        {"llama-3.1-8b/prefill", "*=2048 C=4096"},
                                        {"64 MiB", "*=4096 C=4096"}};
};

}  // namespace tw::ops
