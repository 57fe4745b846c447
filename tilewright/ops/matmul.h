#pragma once

#include "tilewright/kernels/matmul.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Batched matrix multiplication: alpha * a b + beta * addend, sums in float32. Any strides:
/// transposes are views, and a stride of zero broadcasts. With beta = 0 the addend is not read.
/// `out` may alias `addend`.
struct Matmul {
  static constexpr Schema kSchema{
      "matmul(a: T[B, M, K], b: T[B, K, N], alpha: f32 = 1, addend: T[B, M, N]?, beta: f32 = 1) -> "
      "out: T[B, M, N]"};
  static constexpr Gradient kGradient{
      "matmul(a=out.grad, b=b.T, alpha) -> a.grad; matmul(a=a.T, b=out.grad, alpha) -> b.grad; "
      "scale(x=out.grad, factor=beta) -> addend.grad"};
  static constexpr GpuKernels kGpu = GpuKernels::kOwn;
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16, Isa::amx};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::Matmul<T>;

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t i = 0; i < k.out.size(0); ++i)
      for (int64_t m = 0; m < k.out.size(1); ++m)
        for (int64_t n = 0; n < k.out.size(2); ++n) {
          double sum = 0;
          for (int64_t j = 0; j < k.a.size(2); ++j)
            sum += double(k.a(i, m, j)) * double(k.b(i, j, n));
          sum *= double(k.alpha);
          if (k.addend && k.beta != 0) sum += double(k.beta) * double(k.addend(i, m, n));
          k.out(i, m, n) = T(sum);
        }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double batch = double(k.out.size(0)), m = double(k.out.size(1)),
                 n = double(k.out.size(2));
    const double depth = double(k.a.size(2));
    return {
        .flops = 2 * batch * m * n * depth,
        .bytes = double(sizeof(T)) * batch * (m * depth + n * depth + m * n * (k.added() ? 2 : 1))};
  }

  static constexpr Case kEdgeCases[] = {
      {"no batch", "B=0 M=4 K=4 N=4"},
      {"no rows", "B=2 M=0 K=4 N=4"},
      {"no columns", "B=2 M=3 K=4 N=0"},
      {"empty sums", "B=2 M=3 K=0 N=35"},
      {"one product", "B=1 M=1 K=1 N=1 alpha=3"},
      {"small", "B=2 M=3 K=4 N=5 alpha=3"},
      {"a row", "B=3 M=1 K=300 N=70"},
      {"a column", "B=2 M=45 K=130 N=1"},
      {"by columns", "B=1 M=90 K=33 N=5 alpha=0.5"},
      {"ragged tiles", "B=5 M=11 K=67 N=37 alpha=-2"},
      {"attention scores", "B=12 M=64 K=64 N=64 alpha=0.125"},
      {"several blocks of k", "B=2 M=20 K=1100 N=50"},
      {"a packed once for all", "B=1 M=60 K=400 N=130"},
      {"few tiles, many k", "B=1 M=70 K=9001 N=66"},
      {"an addend", "B=2 M=3 K=4 N=5 alpha=3 beta=0.5 +addend"},
      {"an addend alone", "B=2 M=3 K=0 N=35 beta=-2 +addend"},
      {"an addend of no weight", "B=2 M=3 K=9 N=7 beta=0 +addend"},
      {"an addend to a row", "B=3 M=1 K=300 N=70 +addend"},
      {"an addend by columns", "B=1 M=90 K=33 N=5 +addend"},
      {"an addend to ragged tiles", "B=5 M=75 K=67 N=137 alpha=-2 beta=0.25 +addend"},
      {"an addend to parts of k", "B=1 M=70 K=5001 N=66 beta=3 +addend"},
      {"an addend to large tiles", "B=2 M=510 K=72 N=776 beta=1.5 +addend"}};
  static constexpr Case kWorkloads[] = {{"bert-base/scores", "B=12 M=128 K=64 N=128 alpha=0.125"},
                                        {"llama-3.1-8b/decode", "B=1 M=1 K=4096 N=4096"},
                                        {"llama-3.1-8b/batch-16", "B=1 M=16 K=4096 N=4096"},
                                        {"llama-3.1-8b/batch-32", "B=1 M=32 K=4096 N=4096"},
                                        {"llama-3.1-8b/batch-64", "B=1 M=64 K=4096 N=4096"},
                                        {"llama-3.1-8b/prefill", "B=1 M=128 K=4096 N=4096"},
                                        {"cube-512", "B=1 M=512 K=512 N=512"},
                                        {"cube-1024", "B=1 M=1024 K=1024 N=1024"},
                                        {"cube-2048", "B=1 M=2048 K=2048 N=2048"}};
};

}  // namespace tw::ops
