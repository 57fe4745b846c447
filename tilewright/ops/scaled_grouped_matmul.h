#pragma once

#include "tilewright/kernels/scaled_grouped_matmul.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/scaled_groups.h"

namespace tw::ops {

/// Rows in groups, each times its group's matrix, of 8-bit operands: a with a scale for each row
/// and block_k values of k, b with one for each block_n by block_k block. Sums are float32. Group g
/// ends before row offsets[g] and begins at starts[g], or where the group before ends; without
/// offsets there is at most one group, of all rows. Rows of no group are 0. Given rows, row r is
/// row rows[r] of a.
struct ScaledGroupedMatmul : GatheredScaledGroups {
  static constexpr Schema kSchema{
      "scaled_grouped_matmul(a: Q[M, K], b: Q[G, N, K], a_scale: f32[M, A], b_scale: f32[G, B, A], "
      "offsets: i32[G]?, block_n: i64 = 128, block_k: i64 = 128, starts: i32[G]?, rows: i32[R]?) "
      "-> out: f32[R, N]"};
  using Types = Combos<Combo<f8_e4m3fn>, Combo<int8_t>>;

  template <class Q>
  using Kernel = kernels::ScaledGroupedMatmul<Q>;

#if !defined(__CUDACC__)
  template <class Q, class Launch, class Allocate>
  static void compose_on_gpu(const Kernel<Q>& k, Launch&& launch, Allocate&& allocate) {
    gather_on_gpu<ScaledGroupedMatmul>(k, launch, allocate);
  }
#endif

  template <class Q>
  static void reference(const Kernel<Q>& k) {
    for (int64_t r = 0; r < k.out.size(0); ++r) {
      const int64_t g = group_of(k, r), q = k.rows ? k.rows(r) : r;
      for (int64_t n = 0; n < k.out.size(1); ++n)
        k.out(r, n) = g < k.b.size(0) ? float(define(k, q, g, n)) : 0.0f;
    }
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
      {"few rows, many columns", "G=3 M=8 K=16 N=2908 A=1 B=23 +offsets"},
      {"gaps", "G=4 M=150 K=140 N=70 A=2 B=1 +offsets +starts"},
      {"tiles and gaps", "G=5 M=1200 K=272 N=200 A=3 B=2 +offsets +starts"},
      {"gathered, one group", "G=1 M=3 R=70 K=144 N=131 A=2 B=2 +rows"},
      {"gathered, few", "G=4 M=90 R=60 K=272 N=136 A=3 B=2 +offsets +rows"},
      {"gathered, tiles and gaps", "G=5 M=200 R=600 K=400 N=200 A=4 B=2 +offsets +starts +rows"},
      {"gathered before", "G=2 M=100 R=700 K=144 N=72 A=2 B=1 +offsets +rows"},
      {"gathered, no words", "G=2 M=9 R=300 K=45 N=33 A=5 B=5 block_n=7 block_k=9 +offsets +rows"}};
  static constexpr Case kWorkloads[] = {
      {"deepseek-v3/down, 64 tokens", "G=1 M=64 K=2048 N=7168 A=16 B=56"},
      {"8 x 128", "G=8 M=1024 K=2048 N=1024 A=16 B=8 +offsets"}};
};

}  // namespace tw::ops
