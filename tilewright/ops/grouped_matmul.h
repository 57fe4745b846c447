#pragma once

#include <optional>

#include "tilewright/kernels/grouped_matmul.h"
#include "tilewright/ops/core/groups.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Rows in groups, each times its group's matrix, sums in float32. Group g ends before row
/// offsets[g] and begins at starts[g], or where the group before ends. Rows of no group are 0.
struct GroupedMatmul {
  static constexpr Schema kSchema{
      "grouped_matmul(a: T[M, K], b: T[G, K, N], offsets: i32[G], starts: i32[G]?) -> "
      "out: T[M, N]"};
  static constexpr Gradient kGradient{
      "grouped_matmul(a=out.grad, b=b.T, offsets, starts) -> a.grad; "
      "k_grouped_matmul(a=a.T, b=out.grad, offsets, starts) -> b.grad"};
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16, Isa::amx};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::GroupedMatmul<T>;

  template <class T>
  static Support supports(const Kernel<T>& k) {
    return supports_groups(k.groups(), k.a.size(0));
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t r = 0; r < k.out.size(0); ++r) {
      const int64_t g = group_of(k, r);
      for (int64_t n = 0; n < k.out.size(1); ++n) k.out(r, n) = T(grouped_sum(k, r, g, n));
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return grouped_cost(k, k.out.size(0));
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    return materialize_groups(arg, known["G"], known["M"], seed);
  }

  static constexpr Case kEdgeCases[] = {{"no group", "G=0 M=5 K=4 N=4"},
                                        {"no rows", "G=3 M=0 K=4 N=4"},
                                        {"no columns", "G=3 M=5 K=4 N=0"},
                                        {"empty sums", "G=2 M=5 K=0 N=35"},
                                        {"one row", "G=1 M=1 K=33 N=40"},
                                        {"few rows a group", "G=9 M=20 K=70 N=37"},
                                        {"gaps", "G=4 M=100 K=65 N=33 +starts"},
                                        {"many rows a group", "G=3 M=300 K=67 N=70"},
                                        {"several blocks of k", "G=3 M=70 K=1100 N=50 +starts"},
                                        {"parts of tiles", "G=9 M=900 K=72 N=264"},
                                        {"tiles and gaps", "G=5 M=3000 K=520 N=136 +starts"},
                                        {"a packed once for all", "G=2 M=100 K=300 N=200"}};
  static constexpr Case kWorkloads[] = {{"qwen3-30b-a3b/gate_up", "G=128 M=4096 K=2048 N=1536"},
                                        {"qwen3-30b-a3b/down", "G=128 M=4096 K=768 N=2048"},
                                        {"mixtral-8x7b/decode", "G=8 M=2 K=4096 N=14336"},
                                        {"8 x 512", "G=8 M=4096 K=1024 N=1024"}};
};

}  // namespace tw::ops
