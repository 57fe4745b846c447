// The device code of grouped matrix multiplication on Hopper, one fatbin for each element type:
// generated sources define these where the build has CUDA kernels.
#pragma once

#include "tilewright/core/types.h"

namespace tw::runtime::cuda {

template <class T>
const char* gemm_grouped_image();
template <>
const char* gemm_grouped_image<f16>();
template <>
const char* gemm_grouped_image<bf16>();

}  // namespace tw::runtime::cuda
