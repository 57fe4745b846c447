// The device code of norms and of their gradients on Hopper, compiled once for each element type:
// TW_NORM_ELEMENT is float, tw::f16 or tw::bf16. The runtime finds the functions by name and
// number.
#include "tilewright/kernels/norm_backward_rows_sm90.h"
#include "tilewright/kernels/norm_fold_sm90.h"
#include "tilewright/kernels/norm_fused_add_row_sm90.h"
#include "tilewright/kernels/norm_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_NORM_ELEMENT;

extern __shared__ __align__(128) char dynamic_shared[];

template <NormKind kKind>
struct NormOf;
template <>
struct NormOf<NormKind::kRmsBackward> {
  using type = RmsNormBackwardSm90<Element>;
};
template <>
struct NormOf<NormKind::kLayerBackward> {
  using type = LayerNormBackwardSm90<Element>;
};
template <>
struct NormOf<NormKind::kFusedAddRms> {
  using type = FusedAddRmsNormSm90<Element>;
};

/// kIndex: norm_function().
template <int kIndex>
__global__ void __launch_bounds__(NormBuild::kThreads, 1)
    norm(const __grid_constant__ NormArguments<Element> arguments) {
  NormSm90<typename NormOf<NormKind(kIndex / 2)>::type, kIndex % 2 == 1>{arguments}(dynamic_shared);
}

__global__ void __launch_bounds__(NormFoldArguments<Element>::kThreads)
    norm_fold(const __grid_constant__ NormFoldArguments<Element> arguments) {
  __shared__ NormFold<Element>::Shared shared;
  NormFold<Element>{arguments}(shared);
}

template <int kIndex>
void instantiate() {
  [[maybe_unused]] const auto entry = &norm<kIndex>;
  if constexpr (kIndex + 1 < kNormFunctions) instantiate<kIndex + 1>();
}
template void instantiate<0>();

}  // namespace tw::cuda_entry
