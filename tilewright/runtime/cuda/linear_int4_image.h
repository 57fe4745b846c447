// The device code of the linear layer with 4-bit weights on Hopper, one fatbin for each element
// type: generated sources define these where the build has CUDA kernels.
#pragma once

#include "tilewright/core/types.h"

namespace tw::runtime::cuda {

template <class T>
const char* linear_int4_image();
template <>
const char* linear_int4_image<f16>();
template <>
const char* linear_int4_image<bf16>();

}  // namespace tw::runtime::cuda
