#pragma once

#include <string>
#include <vector>

#include "tilewright/kernels/gated_linear.h"
#include "tilewright/ops/core/linear_definition.h"

namespace tw::ops {

/// Linear layer that gates: act(x gateᵀ) * (x upᵀ), with bias, of a weight whose first N rows are
/// the gate's and whose others are up's. Sums and activation in float32; a row has the same bits in
/// any batch on a CPU. Shazeer, arXiv:2002.05202, eq. 5 and 6.
struct GatedLinear {
  // Not an activation of `linear`: there out's columns would depend on a choice, and the schema,
  // which says here that they are half as many as the weight has rows, could check neither.
  static constexpr Schema kSchema{
      "gated_linear(x: T[*, K], weight: T[2*N, K], bias: T[2*N]?, "
      "activation: silu|gelu|gelu_tanh = silu) -> out: T[*, N]"};
  static constexpr GpuKernels kGpu = GpuKernels::kOwn;
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16, Isa::amx};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;
  static constexpr double kGpuToleranceScale = 2;  // of some shapes both products are rounded to T

  template <class T>
  using Kernel = kernels::GatedLinear<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    const int64_t n = k.out.cols;
    for (int64_t m = 0; m < k.out.rows; ++m)
      for (int64_t c = 0; c < n; ++c)
        k.out(m, c) = T(activate(ungated(k.activation), sum(k, m, c)) * sum(k, m, n + c));
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double m = double(k.out.rows), n = double(k.weight.size(0)), depth = double(k.x.cols);
    return {.flops = 2 * m * n * depth,
            .bytes = double(sizeof(T)) * (m * depth + n * depth + m * n / 2)};
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "*=0 K=8 N=8"},
      {"no features", "*=3 K=8 N=0"},
      {"empty sums", "*=2 K=0 N=40 +bias"},
      {"one product", "*=1 K=1 N=1"},
      {"small", "*=2x3 K=4 N=5 +bias"},
      {"one row, panels and a tail", "*=1 K=129 N=101 +bias activation=gelu"},
      {"one row, many tasks", "*=1 K=600 N=550 activation=gelu_tanh"},
      {"two rows, odd k", "*=2 K=67 N=33"},
      {"ragged tile", "*=5 K=70 N=45 +bias activation=gelu"},
      {"a tile and a bit", "*=2x2x4 K=515 N=17 activation=gelu_tanh"},
      {"several blocks of k", "*=23 K=1030 N=70 +bias"},
      {"blocks of rows", "*=530 K=184 N=24 +bias activation=gelu"},
      {"a packed once for all", "*=210 K=700 N=136 activation=gelu_tanh"},
      {"few tiles, many k", "*=35 K=7000 N=40 +bias"}};
  static constexpr Case kWorkloads[] = {{"smollm2-135m/decode", "*=1 K=576 N=1536"},
                                        {"smollm2-135m/prefill", "*=128 K=576 N=1536"},
                                        {"llama-3.1-8b/decode", "*=1 K=4096 N=14336"},
                                        {"llama-3.1-8b/prefill", "*=128 K=4096 N=14336"}};

 private:
  template <class T>
  static double sum(const Kernel<T>& k, int64_t m, int64_t row) {
    double out = k.bias ? double(k.bias(row)) : 0.0;
    for (int64_t i = 0; i < k.x.cols; ++i) out += double(k.x(m, i)) * double(k.weight(row, i));
    return out;
  }
  static kernels::Activation ungated(int activation) {
    using enum kernels::GatedActivation;
    if (activation == int(kSilu)) return kernels::Activation::kSilu;
    if (activation == int(kGelu)) return kernels::Activation::kGelu;
    return kernels::Activation::kGeluTanh;
  }
};

}  // namespace tw::ops
