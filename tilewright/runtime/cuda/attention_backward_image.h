// The device code of attention's backward on Hopper, one fatbin for each element type: generated
// sources define these where the build has CUDA kernels.
#pragma once

#include "tilewright/core/types.h"

namespace tw::runtime::cuda {

template <class T>
const char* attention_backward_image();
template <>
const char* attention_backward_image<f16>();
template <>
const char* attention_backward_image<bf16>();

}  // namespace tw::runtime::cuda
