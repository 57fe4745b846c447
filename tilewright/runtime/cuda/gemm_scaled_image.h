// The device code of multiplication of scaled 8-bit operands on Hopper: a generated source defines
// this where the build has CUDA kernels.
#pragma once

namespace tw::runtime::cuda {

const char* gemm_scaled_image();

}  // namespace tw::runtime::cuda
