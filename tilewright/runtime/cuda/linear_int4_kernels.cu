// The device code of the linear layer with 4-bit weights on Hopper, compiled once for each element
// type: TW_LINEAR_INT4_ELEMENT is tw::f16 or tw::bf16. The runtime finds the functions by name and
// number.
#include "tilewright/kernels/linear_int4_few_sm90.h"
#include "tilewright/kernels/linear_int4_row_sm90.h"
#include "tilewright/kernels/linear_int4_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_LINEAR_INT4_ELEMENT;

extern __shared__ __align__(1024) char dynamic_shared[];

template <int kIndex>
__global__ void __launch_bounds__(LinearInt4Build::kThreads, 1)
    linear_int4(const __grid_constant__ LinearInt4Arguments<Element> arguments) {
  LinearInt4Sm90<Element, kLinearInt4Builds[kIndex]>{arguments}(dynamic_shared);
}
template <int kIndex>
__global__ void __launch_bounds__(LinearInt4FewBuild::kThreads)
    linear_int4_few(const __grid_constant__ LinearInt4Arguments<Element> arguments) {
  using Kernel = LinearInt4FewSm90<Element, kLinearInt4FewBuilds[kIndex]>;
  __shared__ __align__(16) float sums[Kernel::Store::kBytes / 4];
  Kernel{arguments}(sums);
}

__global__ void __launch_bounds__(kLinearInt4RowBuild.threads, kLinearInt4RowBuild.resident)
    linear_int4_row(const __grid_constant__ LinearInt4Arguments<Element> arguments) {
  using Kernel = LinearInt4RowSm90<Element, kLinearInt4RowBuild>;
  __shared__ Kernel::Sums sums;
  Kernel{arguments}(sums, dynamic_shared);
}

template <int kIndex>
void instantiate() {
  if constexpr (kIndex < kLinearInt4BuildCount) [[maybe_unused]]
    const auto entry = &linear_int4<kIndex>;
  if constexpr (kIndex < kLinearInt4FewBuildCount) {
    [[maybe_unused]] const auto entry = &linear_int4_few<kIndex>;
    instantiate<kIndex + 1>();
  }
}
template void instantiate<0>();

}  // namespace tw::cuda_entry
