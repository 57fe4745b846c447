// The device code of attention's backward on Hopper, compiled once for each element type:
// TW_ATTENTION_BACKWARD_ELEMENT is tw::f16 or tw::bf16. The runtime finds the functions by name and
// number.
#include "tilewright/kernels/attention_backward_ends_sm90.h"
#include "tilewright/kernels/attention_backward_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_ATTENTION_BACKWARD_ELEMENT;
using Arguments = AttentionBackwardArguments<Element>;
template <int kIndex>
using Rows = AttentionBackwardRows<Element, kAttentionBackwardBuilds[kIndex]>;
template <int kIndex>
using Queries = AttentionBackwardQueries<Element, kAttentionBackwardBuilds[kIndex]>;

template <int kIndex>
using Schedule = AttentionBackwardSchedule<kAttentionBackwardBuilds[kIndex].queries,
                                           kAttentionBackwardBuilds[kIndex].keys(),
                                           kAttentionScheduleThreads, Element>;

extern __shared__ __align__(1024) char dynamic_shared[];

template <int kIndex>
__global__ void __launch_bounds__(kAttentionScheduleThreads)
    backward_schedule(const __grid_constant__ Arguments arguments) {
  Schedule<kIndex>{arguments}();
}
template <int kIndex>
__global__ void __launch_bounds__(Rows<kIndex>::kThreads, Rows<kIndex>::kResident)
    backward_rows(const __grid_constant__ Arguments arguments) {
  Rows<kIndex>{arguments}();
}
template <int kIndex>
__global__ void __launch_bounds__(AttentionBackwardBuild::kThreads, 1)
    backward(const __grid_constant__ Arguments arguments) {
  AttentionBackwardSm90<Element, kAttentionBackwardBuilds[kIndex]>{arguments}(dynamic_shared);
}
template <int kIndex>
__global__ void __launch_bounds__(Queries<kIndex>::kThreads)
    backward_queries(const __grid_constant__ Arguments arguments) {
  Queries<kIndex>{arguments}();
}

template <int kIndex>
void instantiate() {
  [[maybe_unused]] const auto schedule = &backward_schedule<kIndex>;
  [[maybe_unused]] const auto rows = &backward_rows<kIndex>;
  [[maybe_unused]] const auto entry = &backward<kIndex>;
  [[maybe_unused]] const auto queries = &backward_queries<kIndex>;
  if constexpr (kIndex + 1 < kAttentionBackwardBuildCount) instantiate<kIndex + 1>();
}
template void instantiate<0>();

}  // namespace tw::cuda_entry
