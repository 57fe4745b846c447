// The device code of norms and of their gradients on Hopper, one fatbin for each element type:
// generated sources define these where the build has CUDA kernels.
#pragma once

#include "tilewright/core/types.h"

namespace tw::runtime::cuda {

template <class T>
const char* norm_image();
template <>
const char* norm_image<float>();
template <>
const char* norm_image<f16>();
template <>
const char* norm_image<bf16>();

}  // namespace tw::runtime::cuda
