// The device code of norms and of their gradients on Hopper, compiled once for each element type:
// TW_NORM_ELEMENT is float, tw::f16 or tw::bf16. The runtime finds the functions by name and
// number.
#include <tuple>

#include "tilewright/kernels/norm_backward_rows_sm90.h"
#include "tilewright/kernels/norm_few_columns_sm90.h"
#include "tilewright/kernels/norm_fold_sm90.h"
#include "tilewright/kernels/norm_forward_rows_sm90.h"
#include "tilewright/kernels/norm_rows_sm90.h"
#include "tilewright/kernels/norm_short_sm90.h"
#include "tilewright/kernels/norm_sm90.h"
#include "tilewright/kernels/softmax_rows_sm90.h"

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_NORM_ELEMENT;

extern __shared__ __align__(128) char dynamic_shared[];

/// In the order of NormKind.
using Norms = std::tuple<RmsNormBackwardSm90<Element>, LayerNormBackwardSm90<Element>,
                         FusedAddRmsNormSm90<Element>, RmsNormSm90<Element>, LayerNormSm90<Element>,
                         SoftmaxSm90<Element>, LogSoftmaxSm90<Element>,
                         SoftmaxBackwardSm90<Element>, LogSoftmaxBackwardSm90<Element>>;
template <int kKind>
using NormOf = std::tuple_element_t<kKind, Norms>;

/// kIndex: norm_function().
template <int kIndex>
__global__ void __launch_bounds__(NormBuild::kThreads, 1)
    norm(const __grid_constant__ NormArguments<Element> arguments) {
  NormSm90<NormOf<kIndex / 2>, kIndex % 2 == 1>{arguments}(dynamic_shared);
}

__global__ void __launch_bounds__(NormFoldArguments<Element>::kThreads)
    norm_fold(const __grid_constant__ NormFoldArguments<Element> arguments) {
  __shared__ NormFold<Element>::Shared shared;
  NormFold<Element>{arguments}(shared);
}

/// kIndex: norm_rows_function().
template <int kIndex>
struct RowsOf {
  static constexpr auto kKind = NormKind(kIndex / kNormWays);
  static constexpr auto kWay = NormWay(kIndex % kNormWays);
  static constexpr bool kExists = NormRowsBuild::has(kWay, kKind);
  static constexpr int kBlocks = kWay == NormWay::kFewShort ? 2 : 1;  // of a multiprocessor
  using Norm = NormOf<int(kKind)>;
  static_assert(Norm::kKind == kKind);
  using Kernel = NormRows<Norm, kWay>;
};
template <int kIndex>
__global__ void __launch_bounds__(NormBuild::kThreads, RowsOf<kIndex>::kBlocks)
    few_norm(const __grid_constant__ NormRowsArguments<Element> arguments) {
  __shared__ typename RowsOf<kIndex>::Kernel::Shared shared;
  typename RowsOf<kIndex>::Kernel{arguments}(shared, nullptr);
}
template <int kIndex>
__global__ void __maxnreg__(NormRowsBuild::registers(RowsOf<kIndex>::kWay, RowsOf<kIndex>::kKind))
    many_norm(const __grid_constant__ NormRowsArguments<Element> arguments) {
  __shared__ typename RowsOf<kIndex>::Kernel::Shared shared;
  typename RowsOf<kIndex>::Kernel{arguments}(shared, dynamic_shared);
}
template <int kKind>
__global__ void __launch_bounds__(NormFewBuild::kColumnThreads)
    few_norm_columns(const __grid_constant__ NormRowsArguments<Element> arguments) {
  using Columns = NormFewColumns<NormOf<kKind>>;
  __shared__ typename Columns::Shared shared;
  Columns{arguments}(shared);
}

/// kIndex: NormShortBuild::function().
template <int kIndex>
__global__ void __launch_bounds__(NormShortBuild::kThreads, NormShortBuild::kResident)
    short_norm(const __grid_constant__ NormShortArguments<Element> arguments) {
  using Short = NormShort<NormOf<kIndex / NormShortBuild::kShapeCount>,
                          NormShortBuild::kShapes[kIndex % NormShortBuild::kShapeCount]>;
  __shared__ typename Short::Shared shared;
  Short{arguments}(shared);
}

template <int kIndex>
void instantiate() {
  if constexpr (kIndex < kNormFunctions) [[maybe_unused]]
    const auto entry = &norm<kIndex>;
  if constexpr (kIndex < kNormColumnFunctions) [[maybe_unused]]
    const auto entry = &few_norm_columns<kIndex>;
  if constexpr (kIndex < NormShortBuild::kFunctions) [[maybe_unused]]
    const auto entry = &short_norm<kIndex>;
  using Rows = RowsOf<kIndex>;
  if constexpr (Rows::kExists && is_many(Rows::kWay)) [[maybe_unused]]
    const auto entry = &many_norm<kIndex>;
  if constexpr (Rows::kExists && !is_many(Rows::kWay)) [[maybe_unused]]
    const auto entry = &few_norm<kIndex>;
  if constexpr (kIndex + 1 < kNormRowsFunctions) instantiate<kIndex + 1>();
}
template void instantiate<0>();

}  // namespace tw::cuda_entry
