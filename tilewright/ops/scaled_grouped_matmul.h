#pragma once

#include <optional>

#include "tilewright/kernels/scaled_grouped_matmul.h"
#include "tilewright/ops/core/blocks.h"
#include "tilewright/ops/core/groups.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Rows in groups, each times its group's matrix, of 8-bit operands: a with a scale for each row
/// and block_k values of k, b with one for each block_n by block_k block. Sums are float32. Group g
/// ends before row offsets[g]; without offsets there is at most one group, of all rows. Rows of no
/// group are 0.
struct ScaledGroupedMatmul {
  static constexpr Schema kSchema{
      "scaled_grouped_matmul(a: Q[M, K], b: Q[G, N, K], a_scale: f32[M, A], b_scale: f32[G, B, A], "
      "offsets: i32[G]?, block_n: i64 = 128, block_k: i64 = 128) -> out: f32[M, N]"};
  using Types = Combos<Combo<f8_e4m3fn>, Combo<int8_t>>;
  /// Hopper's tensor cores keep some 14 bits of a sum of e4m3 products.
  static constexpr double kGpuToleranceScale = 200;

  template <class Q>
  using Kernel = kernels::ScaledGroupedMatmul<Q>;

  template <class Q>
  static Support supports_shapes(const Kernel<Q>& k) {
    if (!k.offsets && k.b.size(0) > 1)  // offsets of no group may have no data
      return Support::no("without offsets there is one group, but b has " +
                         std::to_string(k.b.size(0)) + " matrices");
    if (Support s = supports_blocks("a_scale", "K", k.a.size(1), k.block_k, k.a_scale.size(1)); !s)
      return s;
    return supports_blocks("b_scale", "N", k.b.size(1), k.block_n, k.b_scale.size(1));
  }
  template <class Q>
  static Support supports(const Kernel<Q>& k) {
    return supports_groups(k.row_groups(), k.a.size(0));
  }

  template <class Q>
  static void reference(const Kernel<Q>& k) {
    for (int64_t r = 0; r < k.out.size(0); ++r)
      for (int64_t n = 0; n < k.out.size(1); ++n) {
        double sum = 0;
        for (int64_t g = 0; g < k.b.size(0); ++g) {
          if (k.offsets && (r < (g > 0 ? k.offsets(g - 1) : 0) || r >= k.offsets(g))) continue;
          for (int64_t i = 0; i < k.a.size(1); ++i)
            sum += double(k.a(r, i)) * double(k.a_scale(r, i / k.block_k)) * double(k.b(g, n, i)) *
                   double(k.b_scale(g, n / k.block_n, i / k.block_k));
        }
        k.out(r, n) = float(sum);
      }
  }

  template <class Q>
  static Cost cost(const Kernel<Q>& k) {
    const double groups = double(k.b.size(0)), m = double(k.out.size(0)), n = double(k.out.size(1)),
                 depth = double(k.a.size(1));
    return {.flops = 2 * m * n * depth, .bytes = m * depth + groups * n * depth + 4 * m * n};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    return materialize_groups(arg, known["G"], known["M"], seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no group", "G=0 M=5 K=4 N=4 A=1 B=1 +offsets"},
      {"no rows", "G=2 M=0 K=4 N=4 A=1 B=1 +offsets"},
      {"no columns", "G=1 M=5 K=4 N=0 A=1 B=0"},
      {"empty sums", "G=1 M=5 K=0 N=35 A=0 B=1"},
      {"one row", "G=1 M=1 K=300 N=200 A=3 B=2"},
      {"blocks of 128", "G=1 M=60 K=260 N=300 A=3 B=3"},
      {"groups", "G=4 M=150 K=140 N=70 A=2 B=1 +offsets"},
      {"small blocks", "G=3 M=20 K=45 N=33 A=5 B=5 block_n=7 block_k=9 +offsets"},
      {"one scale", "G=1 M=50 K=600 N=40 A=1 B=1 block_n=40 block_k=600"},
      {"tail of k", "G=1 M=70 K=272 N=136 A=3 B=2"},
      {"odd columns", "G=1 M=65 K=144 N=131 A=2 B=2"},
      {"ragged groups", "G=5 M=300 K=144 N=200 A=2 B=2 +offsets"},
      {"long blocks of k", "G=1 M=70 K=1040 N=70 A=3 B=1 block_k=512"},
      {"much k", "G=1 M=9 K=3088 N=72 A=25 B=1"},
      {"many rows", "G=1 M=2900 K=16 N=136 A=1 B=2"},
      {"many columns", "G=3 M=200 K=16 N=2908 A=1 B=23 +offsets"},
      {"few rows, many columns", "G=3 M=8 K=16 N=2908 A=1 B=23 +offsets"}};
  static constexpr Case kWorkloads[] = {
      {"deepseek-v3/down, 64 tokens", "G=1 M=64 K=2048 N=7168 A=16 B=56"},
      {"8 x 128", "G=8 M=1024 K=2048 N=1024 A=16 B=8 +offsets"}};
};

}  // namespace tw::ops
