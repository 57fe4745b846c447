// The device code of multi-head latent attention on Hopper, compiled once for each element type:
// TW_MLA_ELEMENT is tw::f16 or tw::bf16. The runtime finds the functions by name and number. With
// TW_MLA_BUILD it is one function, of that build, which NVRTC compiles when it is asked for:
// TW_MLA_LATENTS is the type of the keys' latent dims.
#include "tilewright/kernels/attention_combine_sm90.h"
#include "tilewright/kernels/mla_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_MLA_ELEMENT;

extern __shared__ __align__(1024) char dynamic_shared[];

#if defined(TW_MLA_BUILD)

__global__ void __launch_bounds__(MlaBuild::kThreads, 1)
    mla(const __grid_constant__ MlaArguments<Element, TW_MLA_LATENTS> arguments) {
  MlaSm90<Element, kMlaBuilds[TW_MLA_BUILD], TW_MLA_LATENTS>{{}, arguments}(dynamic_shared);
}

#else

template <int kIndex>
__global__ void __launch_bounds__(MlaBuild::kThreads, 1)
    mla(const __grid_constant__ MlaArguments<Element> arguments) {
  MlaSm90<Element, kMlaBuilds[kIndex]>{{}, arguments}(dynamic_shared);
}

__global__ void __launch_bounds__(kAttentionCombineThreads, kAttentionCombineResident)
    attention_combine(const __grid_constant__ AttentionArguments<Element> arguments) {
  __shared__ AttentionCombine<Element>::Shared shared;
  AttentionCombine<Element>{arguments}(shared);
}

template <int kIndex>
void instantiate() {
  [[maybe_unused]] const auto entry = &mla<kIndex>;
  if constexpr (kIndex + 1 < kMlaBuildCount) instantiate<kIndex + 1>();
}
template void instantiate<0>();

#endif

}  // namespace tw::cuda_entry
