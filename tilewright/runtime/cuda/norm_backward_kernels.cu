// The device code of the gradients of norms on Hopper, compiled once for each element type:
// TW_NORM_BACKWARD_ELEMENT is float, tw::f16 or tw::bf16. The runtime finds the functions by name
// and number.
#include "tilewright/kernels/norm_backward_fold_sm90.h"
#include "tilewright/kernels/norm_backward_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_NORM_BACKWARD_ELEMENT;

extern __shared__ __align__(128) char dynamic_shared[];

template <bool kIsLayer>
struct NormOf {
  using type = RmsNormBackwardSm90<Element>;
};
template <>
struct NormOf<true> {
  using type = LayerNormBackwardSm90<Element>;
};

/// kIndex: norm_backward_function().
template <int kIndex>
__global__ void __launch_bounds__(NormBackwardBuild::kThreads, 1)
    norm_backward(const __grid_constant__ NormBackwardArguments<Element> arguments) {
  using Norm = typename NormOf<(kIndex >= 2)>::type;
  NormBackwardSm90<Norm, kIndex % 2 == 1>{arguments}(dynamic_shared);
}

__global__ void __launch_bounds__(NormBackwardFoldArguments<Element>::kThreads)
    norm_backward_fold(const __grid_constant__ NormBackwardFoldArguments<Element> arguments) {
  __shared__ NormBackwardFold<Element>::Shared shared;
  NormBackwardFold<Element>{arguments}(shared);
}

template <int kIndex>
void instantiate() {
  [[maybe_unused]] const auto entry = &norm_backward<kIndex>;
  if constexpr (kIndex + 1 < kNormBackwardFunctions) instantiate<kIndex + 1>();
}
template void instantiate<0>();

}  // namespace tw::cuda_entry
