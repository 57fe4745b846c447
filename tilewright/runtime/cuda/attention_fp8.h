// Attention of e4m3 on Hopper: whether it takes a call, and what it is given.
#pragma once

#include "tilewright/core/error.h"
#include "tilewright/kernels/attention_fp8.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Whether it takes this call on that device, or why the neutral kernel must.
TW_API Support supports_sm90(const kernels::AttentionFp8& call, int device);

/// Launches it into `stream`; the call must be supported.
TW_API void launch_sm90(const kernels::AttentionFp8& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
