// What the host fills in and a kernel hands to TMA.
#pragma once

#include "tilewright/core/types.h"

namespace tw::tile::cuda {

/// Describes a tensor in global memory and the boxes it is cut into. Encoded by the driver; kernels
/// take it as part of a __grid_constant__ parameter.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

}  // namespace tw::tile::cuda
