// Linear layers with weights of 4 or 8 bits on Hopper: whether they take a call, and launching it.
#pragma once

#include "tilewright/core/error.h"
#include "tilewright/core/types.h"
#include "tilewright/kernels/linear_int.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Whether it takes this call on that device, or why the neutral kernel must.
template <class T, int kBits>
  requires(sizeof(T) == 2)
TW_API Support supports_sm90(const kernels::LinearInt<T, kBits>& call, int device);

/// Launches it into `stream`; the call must be supported.
template <class T, int kBits>
  requires(sizeof(T) == 2)
TW_API void launch_sm90(const kernels::LinearInt<T, kBits>& call, int device, Stream stream);

}  // namespace tw::runtime::cuda
