// The device code of multi-head latent attention on Hopper, one fatbin for each element type:
// generated sources define these where the build has CUDA kernels.
#pragma once

#include "tilewright/core/types.h"

namespace tw::runtime::cuda {

template <class T>
const char* mla_image();
template <>
const char* mla_image<f16>();
template <>
const char* mla_image<bf16>();

}  // namespace tw::runtime::cuda
