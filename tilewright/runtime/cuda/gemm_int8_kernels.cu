// The device code of multiplication of signed bytes on Hopper: TW_GEMM_INT8_ELEMENT is int8_t. The
// runtime finds the functions by name and number.
#include "tilewright/kernels/gemm_int8_policy_sm90.h"
#include "tilewright/kernels/gemm_realign.h"
#include "tilewright/kernels/gemm_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_GEMM_INT8_ELEMENT;

extern __shared__ __align__(1024) char dynamic_shared[];

__global__ void gemm_int8_realign(
    const __grid_constant__ GemmRealignArguments<sizeof(Element)> arguments) {
  GemmRealign<sizeof(Element)>{arguments}();
}

template <int kShape>
using GemmOf = GemmSm90<Element, int32_t, kGemmInt8Shapes[kShape].build, GemmExact>;

template <int kShape>
__global__ void __launch_bounds__(GemmOf<kShape>::kThreads, 1)
    gemm_int8(const __grid_constant__ typename GemmOf<kShape>::Arguments arguments) {
  GemmOf<kShape>{arguments}(dynamic_shared);
}

template <int kShape>
void instantiate() {
  [[maybe_unused]] const auto entry = &gemm_int8<kShape>;
  if constexpr (kShape + 1 < kGemmInt8ShapeCount) instantiate<kShape + 1>();
}
template void instantiate<0>();

}  // namespace tw::cuda_entry
