// grouped_matmul of 8-bit operands with scales for blocks of them (scaled_product.h), float32 out,
// of rows that it may gather.
#pragma once

#include "tilewright/kernels/scaled_product.h"

namespace tw::kernels {

template <class Q>
struct ScaledGroupedMatmulCall {
  View<const Q, 2> a;              // [*, k]
  View<const Q, 3> b;              // [groups, n, k]
  View<const float, 2> a_scale;    // [*, k / block_k], rounded up
  View<const float, 3> b_scale;    // [groups, n / block_n, k / block_k], rounded up
  View<const int32_t, 1> offsets;  // [groups], where each ends; or no data: one group of all rows
  int64_t block_n, block_k;
  View<const int32_t, 1> starts;  // [groups], or no data: where the group before ends
  View<const int32_t, 1> rows;    // [m], of a, or no data: each row its own
  View<float, 2> out;             // [m, n]

  TW_INLINE RowGroups groups() const { return {offsets, starts}; }
  TW_INLINE ScatteredRows scattered() const { return {rows ? rows.size(0) : a.size(0)}; }
  TW_INLINE ScaledProduct<Q, float, false> product() const {
    return {a, b, a_scale, b_scale, groups(), rows, block_n, block_k, out, scattered()};
  }
};
template <class Q>
using ScaledGroupedMatmul = ScaledProductKernel<ScaledGroupedMatmulCall<Q>>;

}  // namespace tw::kernels
