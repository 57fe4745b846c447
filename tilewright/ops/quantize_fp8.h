#pragma once

#include "tilewright/ops/core/quantize.h"

namespace tw::ops {

/// Groups of columns as f8_e4m3fn times their scale, max(|x|, eps) / 448: 1 for zeros without eps.
struct QuantizeFp8 : QuantizeFamily<f8_e4m3fn, kernels::QuantizeFp8> {
  static constexpr Schema kSchema{
      "quantize_fp8(x: T[*, C], group_size: i64 = 128, eps: f32 = 1e-10, power_of_two: bool = "
      "false) -> out: f8_e4m3fn[*, C], scale: f32[*, C/group_size]"};
};

}  // namespace tw::ops
