// The device code of attention on Hopper, compiled once for each element type: TW_ATTENTION_ELEMENT
// is tw::f16 or tw::bf16. The runtime finds the functions by name and number. With
// TW_ATTENTION_SCORES, a type of attention_bias_sm90.h, it is one function, of build
// TW_ATTENTION_BUILD, that changes scores: NVRTC compiles these when they are asked for.
#include "tilewright/kernels/attention_combine_sm90.h"
#include "tilewright/kernels/attention_policy_sm90.h"
#include "tilewright/kernels/attention_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_ATTENTION_ELEMENT;

extern __shared__ __align__(1024) char dynamic_shared[];

#if defined(TW_ATTENTION_SCORES)

__global__ void __launch_bounds__(kAttentionBuilds[TW_ATTENTION_BUILD].threads(), 1)
    attention(const __grid_constant__ AttentionArguments<Element> arguments) {
  AttentionSm90<Element, kAttentionBuilds[TW_ATTENTION_BUILD], TW_ATTENTION_SCORES>{arguments}(
      dynamic_shared);
}

#else

template <int kIndex>
__global__ void __launch_bounds__(kAttentionBuilds[kIndex].threads(), 1)
    attention(const __grid_constant__ AttentionArguments<Element> arguments) {
  AttentionSm90<Element, kAttentionBuilds[kIndex]>{arguments}(dynamic_shared);
}

__global__ void __launch_bounds__(kAttentionCombineThreads, kAttentionCombineResident)
    attention_combine(const __grid_constant__ AttentionArguments<Element> arguments) {
  __shared__ AttentionCombine<Element>::Shared shared;
  AttentionCombine<Element>{arguments}(shared);
}

template <int kIndex>
void instantiate() {
  [[maybe_unused]] const auto entry = &attention<kIndex>;
  if constexpr (kIndex + 1 < kAttentionBuildCount) instantiate<kIndex + 1>();
}
template void instantiate<0>();

#endif

}  // namespace tw::cuda_entry
