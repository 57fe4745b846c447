// grouped_matmul of e4m3 operands with scales for blocks of them (scaled_product.h), rounded to
// bf16: each row may go to another one of out, times its weight there.
#pragma once

#include "tilewright/kernels/scaled_product.h"

namespace tw::kernels {

struct ScaledGroupedMatmulUnpermuteCall {
  View<const f8_e4m3fn, 2> a;      // [m, k]
  View<const f8_e4m3fn, 3> b;      // [groups, n, k]
  View<const float, 2> a_scale;    // [m, k / block_k], rounded up
  View<const float, 3> b_scale;    // [groups, n / block_n, k / block_k], rounded up
  View<const int32_t, 1> offsets;  // [groups], where each ends; or no data: one group of all rows
  View<const int32_t, 1> starts;   // [groups], or no data: where the group before ends
  View<const int32_t, 1> to_rows;  // [m], of out, or no data: each row its own
  View<const float, 1> weights;    // of rows of out, or no data: 1
  int64_t out_rows;                // of out; negative: m
  int64_t block_n, block_k;
  View<bf16, 2> out;  // [out_rows, n]

  TW_INLINE RowGroups groups() const { return {offsets, starts}; }
  TW_INLINE ScatteredRows scattered() const { return {a.size(0), to_rows, weights}; }
  TW_INLINE ScaledProduct<f8_e4m3fn, bf16, false> product() const {
    return {a, b, a_scale, b_scale, groups(), {}, block_n, block_k, out, scattered()};
  }
};
using ScaledGroupedMatmulUnpermute = ScaledProductKernel<ScaledGroupedMatmulUnpermuteCall>;

}  // namespace tw::kernels
