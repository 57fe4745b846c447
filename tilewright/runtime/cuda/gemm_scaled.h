// Multiplication of scaled 8-bit operands on Hopper: whether it takes a call, and what it is given.
#pragma once

#include "tilewright/core/error.h"
#include "tilewright/core/types.h"
#include "tilewright/kernels/scaled_grouped_matmul.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Whether it takes this call on that device, or why the neutral kernel must.
TW_API Support supports_sm90(const kernels::ScaledGroupedMatmul<f8_e4m3fn>& call, int device);
TW_API Support supports_sm90(const kernels::ScaledGroupedMatmul<int8_t>& call, int device);

/// Launches it into `stream`; the call must be supported. The groups are read when it runs.
TW_API void launch_sm90(const kernels::ScaledGroupedMatmul<f8_e4m3fn>& call, int device,
                        Stream stream);
TW_API void launch_sm90(const kernels::ScaledGroupedMatmul<int8_t>& call, int device,
                        Stream stream);

}  // namespace tw::runtime::cuda
