#pragma once

#include "tilewright/kernels/int_matmul.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Batched matrix multiplication of 8-bit integers, exact: a b in 32-bit integers, which wrap
/// around where a sum needs more (no sum of 131071 products or fewer does). Any strides: transposes
/// are views, and a batch stride of zero broadcasts.
struct IntMatmul {
  static constexpr Schema kSchema{
      "int_matmul(a: i8[B, M, K], b: i8[B, K, N]) -> out: i32[B, M, N]"};
  static constexpr Isa kIsas[] = {Isa::avx512_vnni, Isa::amx};
  using Types = Combos<Combo<>>;

  template <class...>
  using Kernel = kernels::IntMatmul;

  static void reference(const Kernel<>& k) {
    for (int64_t i = 0; i < k.out.size(0); ++i)
      for (int64_t m = 0; m < k.out.size(1); ++m)
        for (int64_t n = 0; n < k.out.size(2); ++n) {
          int64_t sum = 0;
          for (int64_t j = 0; j < k.a.size(2); ++j)
            sum += int64_t{k.a(i, m, j)} * int64_t{k.b(i, j, n)};
          k.out(i, m, n) = int32_t(uint32_t(sum));
        }
  }

  static Cost cost(const Kernel<>& k) {
    const double batch = double(k.out.size(0)), m = double(k.out.size(1)),
                 n = double(k.out.size(2)), depth = double(k.a.size(2));
    return {.flops = 2 * batch * m * n * depth,
            .bytes = batch * (m * depth + n * depth + 4 * m * n),
            .arithmetic = DType::kI8};
  }

  static constexpr Case kEdgeCases[] = {{"no batch", "B=0 M=4 K=4 N=4"},
                                        {"no rows", "B=2 M=0 K=4 N=4"},
                                        {"no columns", "B=2 M=3 K=4 N=0"},
                                        {"empty sums", "B=2 M=3 K=0 N=35"},
                                        {"one product", "B=1 M=1 K=1 N=1"},
                                        {"two products", "B=1 M=2 K=2 N=3"},
                                        {"part of a unit", "B=2 M=3 K=7 N=5"},
                                        {"a row", "B=3 M=1 K=300 N=70"},
                                        {"a column", "B=2 M=45 K=130 N=1"},
                                        {"by columns", "B=1 M=90 K=33 N=5"},
                                        {"ragged tiles", "B=5 M=11 K=67 N=37"},
                                        {"several blocks of k", "B=2 M=20 K=2101 N=50"},
                                        {"a packed once for all", "B=1 M=60 K=400 N=130"},
                                        {"both packed once", "B=2 M=130 K=150 N=200"},
                                        {"few tiles, many k", "B=1 M=70 K=9001 N=66"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/decode", "B=1 M=1 K=4096 N=4096"},
                                        {"llama-3.1-8b/batch-16", "B=1 M=16 K=4096 N=4096"},
                                        {"llama-3.1-8b/prefill", "B=1 M=128 K=4096 N=4096"},
                                        {"llama-3.1-8b/up, prefill", "B=1 M=128 K=4096 N=14336"},
                                        {"llama-3.1-8b/down, prefill", "B=1 M=128 K=14336 N=4096"},
                                        {"llama-3.1-8b/long prefill", "B=1 M=2048 K=4096 N=4096"},
                                        {"cube-1024", "B=1 M=1024 K=1024 N=1024"}};
};

}  // namespace tw::ops
