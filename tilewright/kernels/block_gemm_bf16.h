// block_gemm_cpu.h by pairs of bf16 (vdpbf16ps): operands of bf16, sums float32.
//
// Left operands are groups of rows, [k / 2][rows][2]; right ones panels, [k / 2][32][2]. The last
// pair of an odd k ends with a zero.
#pragma once

#include "tilewright/kernels/block_gemm_cpu.h"

namespace tw::kernels::block_gemm {

struct Bf16Pairs {
  using Unit = uint32_t;
  using Value = bf16;
  struct Scope {};
  TW_INLINE static constexpr int64_t rows(int64_t m) { return m; }
  TW_INLINE static constexpr int64_t pairs(int64_t depth) { return (depth + 1) / 2; }
  TW_INLINE static constexpr int64_t left_units(int64_t m, int64_t depth) {
    return m * pairs(depth);
  }
  TW_INLINE static constexpr int64_t right_units(int64_t n, int64_t depth) {
    return panels(n) * kWidth * pairs(depth);
  }
  template <class P>
  TW_INLINE static void pack_left(P p, const Block<bf16>& a, Unit* to) {
    block_gemm::pack_left<tile::PairUnits>(p, a, to);
  }
  template <class P>
  TW_INLINE static void pack_right(P p, const Block<bf16>& b, Unit* to) {
    block_gemm::pack_right<tile::PairUnits>(p, b, to);
  }
  template <class P>
  TW_INLINE static void multiply(P p, const Unit* a, int64_t m, const Unit* b, int64_t n,
                                 int64_t depth, float* c, bool accumulate) {
    block_gemm::multiply<tile::Bf16DotPanel>(p, a, m, b, n, pairs(depth), c, accumulate);
  }
};

}  // namespace tw::kernels::block_gemm
