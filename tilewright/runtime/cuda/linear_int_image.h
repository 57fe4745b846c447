// The device code of linear layers with weights of 4 or 8 bits on Hopper, one fatbin for each
// element type: generated sources define these where the build has CUDA kernels.
#pragma once

#include "tilewright/core/types.h"

namespace tw::runtime::cuda {

template <class T>
const char* linear_int_image();
template <>
const char* linear_int_image<f16>();
template <>
const char* linear_int_image<bf16>();

}  // namespace tw::runtime::cuda
