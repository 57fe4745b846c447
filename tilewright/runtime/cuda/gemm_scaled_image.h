// The device code of multiplication of scaled 8-bit operands on Hopper, one fatbin for each element
// type: a generated source defines these where the build has CUDA kernels.
#pragma once

#include <cstdint>

#include "tilewright/core/types.h"

namespace tw::runtime::cuda {

template <class Q>
const char* gemm_scaled_image();
template <>
const char* gemm_scaled_image<f8_e4m3fn>();
template <>
const char* gemm_scaled_image<int8_t>();

}  // namespace tw::runtime::cuda
