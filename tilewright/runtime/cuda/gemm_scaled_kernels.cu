// The device code of multiplication of scaled 8-bit operands on Hopper, compiled once for each
// element type: TW_GEMM_SCALED_ELEMENT is tw::f8_e4m3fn or int8_t. The runtime finds the functions
// by name and number.
#include "tilewright/kernels/gemm_scaled_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_GEMM_SCALED_ELEMENT;

extern __shared__ __align__(1024) char dynamic_shared[];

template <int kIndex>
__global__ void __launch_bounds__(kScaledGemmBuilds[kIndex].threads(), 1)
    gemm_scaled(const __grid_constant__ ScaledGemmArguments arguments) {
  ScaledGemmSm90<Element, kScaledGemmBuilds[kIndex]>{arguments}(dynamic_shared);
}
template <int kIndex>
__global__ void __cluster_dims__(kScaledGemmBuilds[kIndex].split, 1, 1)
    __launch_bounds__(kScaledGemmBuilds[kIndex].threads(), 1)
        gemm_scaled_split(const __grid_constant__ ScaledGemmArguments arguments) {
  ScaledGemmSm90<Element, kScaledGemmBuilds[kIndex]>{arguments}(dynamic_shared);
}

template <int kIndex>
void instantiate() {
  if constexpr (kScaledGemmBuilds[kIndex].split > 1) [[maybe_unused]]
    const auto entry = &gemm_scaled_split<kIndex>;
  else [[maybe_unused]]
    const auto entry = &gemm_scaled<kIndex>;
  if constexpr (kIndex + 1 < kScaledGemmBuildCount) instantiate<kIndex + 1>();
}
template void instantiate<0>();

}  // namespace tw::cuda_entry
