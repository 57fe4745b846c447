#pragma once

#include "tilewright/kernels/scaled_grouped_matmul_unpermute.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/scaled_groups.h"
#include "tilewright/ops/core/unpermuted.h"

namespace tw::ops {

/// scaled_grouped_matmul of e4m3 operands in bf16, whose row r becomes row to_rows[r] of out, or
/// nothing where that is outside out: each row of out must be that of one. Rows of out are
/// multiplied by their weights, but for those of no group, which are 0.
struct ScaledGroupedMatmulUnpermute : ScaledGroups {
  static constexpr Schema kSchema{
      "scaled_grouped_matmul_unpermute(a: f8_e4m3fn[M, K], b: f8_e4m3fn[G, N, K], "
      "a_scale: f32[M, A], b_scale: f32[G, B, A], offsets: i32[G]?, starts: i32[G]?, "
      "to_rows: i32[M]?, weights: f32[R]?, out_rows: i64 = -1, block_n: i64 = 128, "
      "block_k: i64 = 128) -> out: bf16[R, N]"};
  using Types = Combos<Combo<>>;
  /// Some 14 bits of a sum, where bf16 has 8.
  static constexpr double kGpuToleranceScale = 2;

  template <class...>
  using Kernel = kernels::ScaledGroupedMatmulUnpermute;

  static std::vector<std::vector<int64_t>> infer(const Call& call, const Bindings& known) {
    return Unpermuted::infer(call, known);
  }
  static Support supports_shapes(const Kernel<>& k) {
    if (Support s = Unpermuted::supports_shapes(k); !s) return s;
    return ScaledGroups::supports_shapes(k);
  }
  static Support supports(const Kernel<>& k) {
    if (Support s = Unpermuted::supports(k); !s) return s;
    return ScaledGroups::supports(k);
  }

  static void reference(const Kernel<>& k) {
    for (int64_t r = 0; r < k.a.size(0); ++r) {
      const int64_t g = group_of(k, r), to = Unpermuted::destination(k, r);
      if (to < 0) continue;
      const double weight = k.weights ? double(k.weights(to)) : 1;
      for (int64_t n = 0; n < k.out.size(1); ++n)
        k.out(to, n) = bf16(g < k.b.size(0) ? weight * define(k, r, g, n) : 0);
    }
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (auto made = Unpermuted::materialize(arg, known, seed)) return made;
    return materialize_groups(arg, known["G"], known["M"], seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no group", "G=0 M=5 R=5 K=4 N=4 A=1 B=1 +offsets +to_rows +weights"},
      {"no rows", "G=2 M=0 R=0 K=4 N=4 A=1 B=1 +offsets"},
      {"no rows of out", "G=1 M=5 R=0 K=4 N=4 A=1 B=1 out_rows=0 +to_rows"},
      {"no columns", "G=1 M=5 K=4 N=0 A=1 B=0"},
      {"empty sums", "G=1 M=5 R=5 K=0 N=35 A=0 B=1 +to_rows +weights"},
      {"one row", "G=1 M=1 R=1 K=300 N=200 A=3 B=2 +weights"},
      {"rows of their own", "G=4 M=150 K=144 N=72 A=2 B=1 +offsets"},
      {"small blocks",
       "G=3 M=20 R=20 K=45 N=33 A=5 B=5 block_n=7 block_k=9 +offsets +to_rows "
       "+weights"},
      {"a group", "G=1 M=150 R=150 K=272 N=200 A=3 B=2 +to_rows"},
      {"few rows a group", "G=9 M=70 R=70 K=144 N=136 A=2 B=2 +offsets +to_rows +weights"},
      {"rows left out",
       "G=5 M=600 R=500 K=400 N=136 A=4 B=2 out_rows=500 +offsets +starts "
       "+to_rows +weights"},
      {"tiles and gaps",
       "G=5 M=1200 R=1200 K=272 N=264 A=3 B=3 +offsets +starts +to_rows +weights"},
      {"odd columns", "G=2 M=165 R=165 K=144 N=67 A=2 B=1 +offsets +to_rows +weights"}};
  static constexpr Case kWorkloads[] = {
      {"qwen3-30b-a3b/down",
       "G=128 M=4096 R=4096 K=768 N=2048 A=6 B=16 +offsets +to_rows +weights"}};
};

}  // namespace tw::ops
