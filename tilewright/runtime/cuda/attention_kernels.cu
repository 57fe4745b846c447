// The device code of attention on Hopper, compiled once for each element type: TW_ATTENTION_ELEMENT
// is tw::f16 or tw::bf16. The runtime finds the functions by name and number. With
// TW_ATTENTION_BUILD it is one function, of that build, which NVRTC compiles when it is asked for:
// TW_ATTENTION_ELEMENT may be tw::f8_e4m3fn, too, TW_ATTENTION_KEYS is the type of keys and values,
// TW_ATTENTION_SCORES one of attention_bias_sm90.h or attention_mods_sm90.h. With
// TW_ATTENTION_SEEN, too, it is the function that runs before that one if there is a mask_mod.
#include "tilewright/kernels/attention_combine_sm90.h"
#include "tilewright/kernels/attention_mods_sm90.h"
#include "tilewright/kernels/attention_policy_sm90.h"
#include "tilewright/kernels/attention_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_ATTENTION_ELEMENT;

extern __shared__ __align__(1024) char dynamic_shared[];

#if defined(TW_ATTENTION_BUILD)

constexpr AttentionBuild kBuild = attention_build(sizeof(Element), sizeof(TW_ATTENTION_KEYS),
                                                  TW_ATTENTION_BUILD, PrintedMask::kAny);

#if defined(TW_ATTENTION_SEEN)

__global__ void __launch_bounds__(kAttentionSeenThreads)
    attention_seen(const __grid_constant__ AttentionArguments<Element> arguments) {
  __shared__ AttentionSeenWord word;
  AttentionFindSeen<Element, kBuild>{arguments}(word);
}

#else

__global__ void __launch_bounds__(kBuild.threads(), 1)
    attention(const __grid_constant__ AttentionArguments<Element> arguments) {
  AttentionSm90<Element, kBuild, TW_ATTENTION_SCORES, TW_ATTENTION_KEYS>{arguments}(dynamic_shared);
}

#endif
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
