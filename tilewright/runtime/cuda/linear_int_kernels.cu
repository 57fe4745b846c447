// The device code of linear layers with weights of 4 or 8 bits on Hopper, compiled once for each
// element type: TW_LINEAR_INT_ELEMENT is tw::f16 or tw::bf16. The runtime finds the functions by
// name and numbers.
#include "tilewright/kernels/linear_int_few_sm90.h"
#include "tilewright/kernels/linear_int_row_sm90.h"
#include "tilewright/kernels/linear_int_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_LINEAR_INT_ELEMENT;

extern __shared__ __align__(1024) char dynamic_shared[];

template <int kBits, int kIndex>
__global__ void __launch_bounds__(LinearIntBuild<kBits>::kThreads,
                                  kLinearIntBuilds<kBits>[kIndex].resident)
    linear_int(const __grid_constant__ LinearIntArguments<Element> arguments) {
  LinearIntSm90<Element, kBits, kLinearIntBuilds<kBits>[kIndex]> { arguments }(dynamic_shared);
}
template <int kBits, int kIndex>
__global__ void __launch_bounds__(LinearIntFewBuild<kBits>::kThreads)
    linear_int_few(const __grid_constant__ LinearIntArguments<Element> arguments) {
  using Kernel = LinearIntFewSm90<Element, kBits, kLinearIntFewBuilds<kBits>[kIndex]>;
  __shared__ __align__(16) float sums[Kernel::Store::kBytes / 4];
  Kernel{arguments}(sums);
}

template <int kBits>
__global__ void __launch_bounds__(kLinearIntRowBuild<kBits>.threads,
                                  kLinearIntRowBuild<kBits>.resident)
    linear_int_row(const __grid_constant__ LinearIntArguments<Element> arguments) {
  using Kernel = LinearIntRowSm90<Element, kBits, kLinearIntRowBuild<kBits>>;
  __shared__ typename Kernel::Sums sums;
  Kernel{arguments}(sums, dynamic_shared);
}

template <int kBits, int kIndex>
void instantiate() {
  static_assert(kLinearIntFewBuildCount<kBits> <= kLinearIntBuildCount);
  if constexpr (kIndex == 0) [[maybe_unused]]
    const auto entry = &linear_int_row<kBits>;
  if constexpr (kIndex < kLinearIntFewBuildCount<kBits>) [[maybe_unused]]
    const auto entry = &linear_int_few<kBits, kIndex>;
  if constexpr (kIndex < kLinearIntBuildCount) {
    [[maybe_unused]] const auto entry = &linear_int<kBits, kIndex>;
    instantiate<kBits, kIndex + 1>();
  }
}
template void instantiate<4, 0>();
template void instantiate<8, 0>();

}  // namespace tw::cuda_entry
