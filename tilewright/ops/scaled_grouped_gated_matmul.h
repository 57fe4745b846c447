#pragma once

#include "tilewright/kernels/scaled_grouped_gated_matmul.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/scaled_groups.h"
#include "tilewright/ops/grouped_gated_matmul.h"

namespace tw::ops {

/// act(a gate) * (a up) for rows in groups, of e4m3 operands with scales as in
/// scaled_grouped_matmul: b has the gate's rows before the up's. Sums and activation in float32.
/// Rows of no group are 0. Given rows, row r is row rows[r] of a.
struct ScaledGroupedGatedMatmul : GatheredScaledGroups {
  static constexpr Schema kSchema{
      "scaled_grouped_gated_matmul(a: f8_e4m3fn[M, K], b: f8_e4m3fn[G, 2*N, K], a_scale: f32[M, "
      "A], "
      "b_scale: f32[G, B, A], offsets: i32[G]?, starts: i32[G]?, rows: i32[R]?, "
      "activation: silu|gelu|gelu_tanh = silu, block_n: i64 = 128, block_k: i64 = 128) -> "
      "out: bf16[R, N]"};
  using Types = Combos<Combo<>>;
  /// Errors of both sums, each some 2^-14 of what it adds up, meet in a product.
  static constexpr double kGpuToleranceScale = 2;

  template <class...>
  using Kernel = kernels::ScaledGroupedGatedMatmul;

#if !defined(__CUDACC__)
  template <class Launch, class Allocate>
  static void compose_on_gpu(const Kernel<>& k, Launch&& launch, Allocate&& allocate) {
    gather_on_gpu<ScaledGroupedGatedMatmul>(k, launch, allocate);
  }

  static void reference(const Kernel<>& k) {
    const int64_t columns = k.out.size(1);
    for (int64_t r = 0; r < k.out.size(0); ++r) {
      const int64_t g = group_of(k, r), q = k.rows ? k.rows(r) : r;
      for (int64_t n = 0; n < columns; ++n) {
        const bool some = g < k.b.size(0);
        const double gate = some ? define(k, q, g, n) : 0,
                     up = some ? define(k, q, g, columns + n) : 0;
        k.out(r, n) = bf16(GroupedGatedMatmul::define(k.activation, gate) * up);
      }
    }
  }
#endif

  static constexpr Case kEdgeCases[] = {
      {"no group", "G=0 M=5 K=4 N=4 A=1 B=1 +offsets"},
      {"no rows", "G=2 M=0 K=4 N=4 A=1 B=1 +offsets"},
      {"no columns", "G=1 M=5 K=4 N=0 A=1 B=0"},
      {"empty sums", "G=1 M=5 K=0 N=35 A=0 B=1"},
      {"one row", "G=1 M=1 K=300 N=100 A=3 B=2"},
      {"small blocks", "G=3 M=20 K=45 N=33 A=5 B=10 block_n=7 block_k=9 activation=gelu +offsets"},
      {"a group", "G=1 M=150 K=272 N=192 A=3 B=3"},
      {"few rows a group", "G=9 M=70 K=144 N=64 A=2 B=1 activation=gelu_tanh +offsets"},
      {"halves of blocks", "G=4 M=300 K=400 N=320 A=4 B=5 activation=gelu +offsets"},
      {"tiles and gaps", "G=5 M=1200 K=272 N=128 A=3 B=2 +offsets +starts"},
      {"long blocks of k", "G=1 M=70 K=1040 N=64 A=3 B=1 block_k=512"},
      {"one scale", "G=1 M=50 K=608 N=64 A=1 B=1 block_n=128 block_k=608"},
      {"odd columns", "G=2 M=65 K=144 N=67 A=2 B=2 +offsets"},
      {"gathered, few", "G=4 M=9 R=60 K=272 N=64 A=3 B=1 +offsets +rows"},
      {"gathered, tiles and gaps",
       "G=5 M=200 R=600 K=400 N=192 A=4 B=3 activation=gelu_tanh +offsets +starts +rows"},
      {"gathered before", "G=2 M=100 R=700 K=144 N=64 A=2 B=1 +offsets +rows"}};
  static constexpr Case kWorkloads[] = {
      {"qwen3-30b-a3b/gate_up", "G=128 M=512 R=4096 K=2048 N=768 A=16 B=12 +offsets +rows"},
      {"deepseek-v3/64 tokens", "G=1 M=64 K=7168 N=2048 A=56 B=32"}};
};

}  // namespace tw::ops
