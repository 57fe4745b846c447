// The device code of grouped matrix multiplication on Hopper, compiled once for each element type:
// TW_GEMM_GROUPED_ELEMENT is tw::f16 or tw::bf16. The runtime finds the functions by name and
// number.
#include "tilewright/kernels/gemm_grouped_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_GEMM_GROUPED_ELEMENT;

extern __shared__ __align__(1024) char dynamic_shared[];

/// 1 more: the weights' n runs along memory; 2 more: gated; 4 more: rows are gathered; 8 more: rows
/// of the product go to others of out.
template <int kBuild>
__global__ void __launch_bounds__(GroupedGemmBuild::kThreads, 1)
    gemm_grouped(const __grid_constant__ GroupedGemmArguments<Element> arguments) {
  GroupedGemmSm90<Element, kBuild % 2 == 1, kBuild / 2 % 2 == 1, kBuild / 4 % 2 == 1,
                  kBuild / 8 == 1>{arguments}(dynamic_shared);
}

void instantiate() {
  [[maybe_unused]] const auto plain = &gemm_grouped<0>, plain_along_n = &gemm_grouped<1>,
                              gated = &gemm_grouped<2>, gated_along_n = &gemm_grouped<3>,
                              gathered = &gemm_grouped<6>, gathered_along_n = &gemm_grouped<7>,
                              scattered = &gemm_grouped<8>, scattered_along_n = &gemm_grouped<9>;
}

}  // namespace tw::cuda_entry
