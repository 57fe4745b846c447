// The device code of the products of experts of scaled 8-bit operands on Hopper, compiled once for
// each element type: TW_GEMM_SCALED_EXPERTS_ELEMENT is tw::f8_e4m3fn. The runtime finds the
// functions by name and number.
#include "tilewright/kernels/gemm_scaled_experts_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_GEMM_SCALED_EXPERTS_ELEMENT;

extern __shared__ __align__(1024) char dynamic_shared[];

template <bool kWide>
struct OutOf {
  using type = bf16;
};
template <>
struct OutOf<true> {
  using type = float;
};
template <int kIndex>
using Out = typename OutOf<kScaledExpertsBuilds[kIndex].wide>::type;

template <int kIndex>
__global__ void __launch_bounds__(kScaledExpertsBuilds[kIndex].threads(), 1) gemm_scaled_experts(
    const __grid_constant__ ScaledExpertsArguments<Element, Out<kIndex>> arguments) {
  ScaledExpertsSm90<Element, Out<kIndex>, kScaledExpertsBuilds[kIndex]>{arguments}(dynamic_shared);
}

template <int kIndex>
void instantiate() {
  [[maybe_unused]] const auto entry = &gemm_scaled_experts<kIndex>;
  if constexpr (kIndex + 1 < kScaledExpertsBuildCount) instantiate<kIndex + 1>();
}
template void instantiate<0>();

}  // namespace tw::cuda_entry
