// Attention's backward on Hopper: whether it takes a call, and launching it.
#pragma once

#include "tilewright/core/error.h"
#include "tilewright/kernels/attention_backward.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Whether it takes this call on that device, or why the neutral kernel must.
template <class T>
  requires(sizeof(T) == 2)
TW_API Support supports_sm90(const kernels::AttentionBackward<T>& call, int device);

/// Launches it into `stream`; the call must be supported.
template <class T>
  requires(sizeof(T) == 2)
TW_API void launch_sm90(const kernels::AttentionBackward<T>& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
