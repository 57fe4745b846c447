// The linear layer with 4-bit weights on Hopper: whether it takes a call, and launching it.
#pragma once

#include "tilewright/core/error.h"
#include "tilewright/core/types.h"
#include "tilewright/kernels/linear_int4.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Whether it takes this call on that device, or why the neutral kernel must.
TW_API Support supports_sm90(const kernels::LinearInt4<f16>& call, int device);
TW_API Support supports_sm90(const kernels::LinearInt4<bf16>& call, int device);

/// Launches it into `stream`; the call must be supported.
TW_API void launch_sm90(const kernels::LinearInt4<f16>& call, int device, Stream stream);
TW_API void launch_sm90(const kernels::LinearInt4<bf16>& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
