#pragma once

#include <optional>

#include "tilewright/kernels/k_grouped_matmul.h"
#include "tilewright/ops/core/groups.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// The product of each group of a's columns with the same rows of b, sums in float32. Group g ends
/// before column offsets[g] and begins at starts[g], or where the group before ends.
struct KGroupedMatmul {
  static constexpr Schema kSchema{
      "k_grouped_matmul(a: T[M, K], b: T[K, N], offsets: i32[G], starts: i32[G]?) -> "
      "out: T[G, M, N]"};
  static constexpr Gradient kGradient{
      "grouped_matmul(a=b, b=out.grad.T, offsets, starts) -> turned; "
      "transpose(x=turned, dim0=0, dim1=1) -> a.grad; "
      "grouped_matmul(a=a.T, b=out.grad, offsets, starts) -> b.grad"};
  static constexpr GpuKernels kGpu = GpuKernels::kOwn;
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16, Isa::amx};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;
  using ReferenceTypes = Combos<Combo<double>>;

  template <class T>
  using Kernel = kernels::KGroupedMatmul<T>;

  template <class T>
  static Support supports(const Kernel<T>& k) {
    return supports_groups(k.groups(), k.a.size(1));
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    for (int64_t g = 0; g < k.out.size(0); ++g) {
      const int64_t before = g > 0 ? k.offsets(g - 1) : 0;
      for (int64_t m = 0; m < k.out.size(1); ++m)
        for (int64_t n = 0; n < k.out.size(2); ++n) {
          double sum = 0;
          for (int64_t i = k.starts ? k.starts(g) : before; i < k.offsets(g); ++i)
            sum += double(k.a(m, i)) * double(k.b(i, n));
          k.out(g, m, n) = T(sum);
        }
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    const double groups = double(k.out.size(0)), m = double(k.out.size(1)),
                 n = double(k.out.size(2)), depth = double(k.a.size(1));
    return {.flops = 2 * m * n * depth,
            .bytes = double(sizeof(T)) * (m * depth + n * depth + groups * m * n)};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    return materialize_groups(arg, known["G"], known["K"], seed);
  }

  static constexpr Case kEdgeCases[] = {{"no group", "G=0 M=5 K=4 N=4"},
                                        {"no rows", "G=3 M=0 K=4 N=4"},
                                        {"no columns", "G=3 M=5 K=4 N=0"},
                                        {"empty sums", "G=2 M=5 K=0 N=35"},
                                        {"a row", "G=4 M=1 K=50 N=40"},
                                        {"gaps", "G=4 M=45 K=90 N=33 +starts"},
                                        {"many groups", "G=20 M=30 K=64 N=37"},
                                        {"several blocks of k", "G=3 M=20 K=2300 N=50"},
                                        {"tiles and their ends", "G=5 M=136 K=700 N=264 +starts"},
                                        {"a packed once for all", "G=2 M=60 K=400 N=130"}};
  static constexpr Case kWorkloads[] = {{"qwen3-30b-a3b/gate_up", "G=128 M=2048 K=4096 N=1536"},
                                        {"8 x 512", "G=8 M=1024 K=4096 N=1024"}};
};

}  // namespace tw::ops
