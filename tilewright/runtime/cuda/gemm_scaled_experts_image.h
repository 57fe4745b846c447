// The device code of the products of experts of scaled e4m3 operands on Hopper: a generated source
// defines this where the build has CUDA kernels.
#pragma once

namespace tw::runtime::cuda {

const char* gemm_scaled_experts_image();

}  // namespace tw::runtime::cuda
