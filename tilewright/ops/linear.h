#pragma once

#include "tilewright/kernels/linear.h"
#include "tilewright/ops/core/linear_definition.h"

namespace tw::ops {

/// Linear layer: activation(x weightᵀ * row_scale * column_scale + bias) + residual, where scales
/// are of the rows and of the columns of the product. Sums are float32; a row has the same bits in
/// any batch. `out` may alias `residual`.
struct Linear {
  static constexpr Schema kSchema{
      "linear(x: T[*, K], weight: T[N, K], bias: T[N]?, residual: T[*, N]?, "
      "activation: none|relu|gelu|gelu_tanh|silu = none, row_scale: f32[*]?, "
      "column_scale: f32[N]?) -> out: T[*, N]"};
  static constexpr Gradient kGradient{
      "where activation=none, row_scale=absent, column_scale=absent: linear(x=out.grad, "
      "weight=weight.T) -> x.grad; "
      "matmul(a=out.grad.matrix.T, b=x.matrix) -> weight.grad; sum(x=out.grad.matrix, dim=1) -> "
      "bias.grad; out.grad -> residual.grad"};
  static constexpr GpuKernels kGpu = GpuKernels::kOwn;
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16, Isa::amx};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Linear<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    linear_reference(k, [&](int64_t n, int64_t i) { return double(k.weight(n, i)); });
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double size = sizeof(T);
    return linear_cost(k, size * double(k.weight.size(0)) * double(k.weight.size(1)), size);
  }

  static constexpr auto kEdgeCases = joined(kLinearEdgeCases, kLinearScaleCases);
  static constexpr auto& kWorkloads = kLinearWorkloads;
};

}  // namespace tw::ops
