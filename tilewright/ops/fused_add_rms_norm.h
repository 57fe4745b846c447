#pragma once

#include <cmath>

#include "tilewright/kernels/fused_add_rms_norm.h"
#include "tilewright/ops/core/norm.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// x + residual, and its RMS normalization over the last axis. `out` may alias `x`, `residual_out`
/// may alias `residual`.
struct FusedAddRmsNorm {
  static constexpr Schema kSchema{
      "fused_add_rms_norm(x: T[*, C], residual: T[*, C], weight: T[C], eps: f32 = 1e-6) -> "
      "out: T[*, C], residual_out: T[*, C]"};
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16};
  static constexpr Gradient kGradient{
      "rms_norm_backward(grad=out.grad, x=residual_out, weight, residual_grad=residual_out.grad, "
      "eps) -> x.grad, weight.grad; x.grad -> residual.grad"};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::FusedAddRmsNorm<T>;

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    return supports_eps(k.eps);
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.x.rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < k.x.cols; ++c) {
        k.residual_out(r, c) = T(double(k.x(r, c)) + double(k.residual(r, c)));
        sum += std::pow(double(k.residual_out(r, c)), 2);
      }
      const double rms = std::sqrt(sum / double(k.x.cols) + double(k.eps));
      for (int64_t c = 0; c < k.x.cols; ++c)
        k.out(r, c) = T(double(k.residual_out(r, c)) / rms * double(k.weight(c)));
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double n = double(k.x.rows) * double(k.x.cols);
    return {.flops = 5 * n, .bytes = double(sizeof(T)) * (4 * n + double(k.x.cols))};
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "*=0 C=8"},
                                        {"no columns", "*=3 C=0"},
                                        {"one element", "*=1 C=1"},
                                        {"single spans and a tail", "*=3 C=45"},
                                        {"unrolled spans and a tail", "*=2x3 C=1031"},
                                        {"few short rows", "*=3 C=520"},
                                        {"few long rows", "*=2 C=4104"},
                                        {"many rows", "*=2x130 C=520"},
                                        {"many rows of several warps", "*=2x130 C=2056"},
                                        {"long rows of four bytes", "*=3 C=8200"},
                                        {"long rows", "*=5 C=16392"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/decode", "*=1 C=4096"},
                                        {"llama-3.1-8b/batch-16", "*=16 C=4096"},
                                        {"llama-3.1-8b/batch-32", "*=32 C=4096"},
                                        {"llama-3.1-8b/batch-64", "*=64 C=4096"},
                                        {"llama-3.1-8b/prefill", "*=2048 C=4096"}};
};

}  // namespace tw::ops
