#pragma once

#include "tilewright/ops/core/quantize.h"

namespace tw::ops {

/// Groups of columns as int8 times their scale, max(|x|, eps) / 127: 1 for zeros without eps. To
/// the nearest integer, or towards zero.
struct QuantizeInt8 : QuantizeFamily<int8_t, kernels::QuantizeInt8> {
  static constexpr Schema kSchema{
      "quantize_int8(x: T[*, C], group_size: i64 = 128, eps: f32 = 1e-10, power_of_two: bool = "
      "false, truncate: bool = false) -> out: i8[*, C], scale: f32[*, C/group_size]"};
};

}  // namespace tw::ops
