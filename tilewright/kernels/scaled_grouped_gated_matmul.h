// grouped_gated_matmul of e4m3 operands with scales for blocks of them (scaled_product.h): the
// sums of a gate, activated, times those of what it is for, rounded to bf16.
#pragma once

#include "tilewright/kernels/scaled_product.h"

namespace tw::kernels {

struct ScaledGroupedGatedMatmulCall {
  View<const f8_e4m3fn, 2> a;      // [*, k]
  View<const f8_e4m3fn, 3> b;      // [groups, 2 n, k]
  View<const float, 2> a_scale;    // [*, k / block_k], rounded up
  View<const float, 3> b_scale;    // [groups, 2 n / block_n, k / block_k], rounded up
  View<const int32_t, 1> offsets;  // [groups], where each ends; or no data: one group of all rows
  View<const int32_t, 1> starts;   // [groups], or no data: where the group before ends
  View<const int32_t, 1> rows;     // [m], of a, or no data: each row its own
  int activation;                  // a GatedActivation
  int64_t block_n, block_k;
  View<bf16, 2> out;  // [m, n]

  TW_INLINE RowGroups groups() const { return {offsets, starts}; }
  TW_INLINE ScatteredRows scattered() const { return {rows ? rows.size(0) : a.size(0)}; }
  TW_INLINE ScaledProduct<f8_e4m3fn, bf16, true> product() const {
    return {a, b, a_scale, b_scale, groups(), rows, block_n, block_k, out, scattered(), activation};
  }
};
using ScaledGroupedGatedMatmul = ScaledProductKernel<ScaledGroupedGatedMatmulCall>;

}  // namespace tw::kernels
