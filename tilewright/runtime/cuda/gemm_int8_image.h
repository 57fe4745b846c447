// The device code of multiplication of signed bytes on Hopper, a fatbin: a generated source defines
// this where the build has CUDA kernels.
#pragma once

namespace tw::runtime::cuda {

const char* gemm_int8_image();

}  // namespace tw::runtime::cuda
