// The device code of attention on Hopper, one fatbin for each element type: generated sources
// define these where the build has CUDA kernels.
#pragma once

#include "tilewright/core/types.h"

namespace tw::runtime::cuda {

template <class T>
const char* attention_image();
template <>
const char* attention_image<f16>();
template <>
const char* attention_image<bf16>();

}  // namespace tw::runtime::cuda
