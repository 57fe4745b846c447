// The device code of matrix multiplication, compiled once for each element type: TW_GEMM_ELEMENT is
// float, tw::f16 or tw::bf16. The runtime finds the functions by name and number.
#include "tilewright/kernels/activation.h"
#include "tilewright/kernels/gemm_few_rows.h"
#include "tilewright/kernels/gemm_gate.h"
#include "tilewright/kernels/gemm_mma.h"
#include "tilewright/kernels/gemm_strided.h"
#include "tilewright/kernels/gemm_strided_policy.h"
#if TW_GEMM_HAS_SM90
#include "tilewright/kernels/gemm_epilogue.h"
#include "tilewright/kernels/gemm_realign.h"
#include "tilewright/kernels/gemm_sm90.h"
#include "tilewright/kernels/gemm_variants_sm90.h"
#endif

namespace tw::cuda_entry {

using namespace kernels;
using Element = TW_GEMM_ELEMENT;

extern __shared__ __align__(1024) char dynamic_shared[];

template <int kShape>
__global__ void __launch_bounds__(kGemmStridedShapes[kShape].build.threads(),
                                  kGemmStridedShapes[kShape].build.resident)
    gemm_strided(const __grid_constant__ GemmStridedArguments<Element> arguments) {
  GemmStrided<Element, kGemmStridedShapes[kShape].build>{arguments, dynamic_shared}();
}
__global__ void __launch_bounds__(256)
    gemm_strided_sum(const __grid_constant__ GemmStridedArguments<Element> arguments,
                     int64_t parts) {
  GemmStridedSum<Element>{arguments, parts}();
}
__global__ void __launch_bounds__(256)
    gemm_gate(const __grid_constant__ GemmGateArguments<Element> arguments) {
  GemmGate<Element>{arguments}();
}
template <int kShape>
void instantiate_strided() {
  if constexpr (sizeof(Element) == 4) [[maybe_unused]]
    const auto entry = &gemm_strided<kShape>;
  if constexpr (kShape + 1 < kGemmStridedShapeCount) instantiate_strided<kShape + 1>();
}
template void instantiate_strided<0>();

/// kIndex: of a shape and a way.
template <int kIndex>
__global__ void __launch_bounds__(kGemmMmaShapes[kIndex / GemmMmaWay::kCount].build.threads(),
                                  kGemmMmaShapes[kIndex / GemmMmaWay::kCount].build.resident)
    gemm_mma(const __grid_constant__ GemmStridedArguments<Element> arguments) {
  constexpr GemmMmaBuild kBuild = kGemmMmaShapes[kIndex / GemmMmaWay::kCount].build;
  GemmMma<Element, kBuild, kIndex % GemmMmaWay::kCount>{arguments, dynamic_shared}();
}
template <int kIndex>
void instantiate_mma() {
  if constexpr (sizeof(Element) == 2) [[maybe_unused]]
    const auto entry = &gemm_mma<kIndex>;
  if constexpr (kIndex + 1 < kGemmMmaShapeCount * GemmMmaWay::kCount) instantiate_mma<kIndex + 1>();
}
template void instantiate_mma<0>();

template <int kBuild>
__global__ void __launch_bounds__(GemmFewRowsBuild::kThreads)
    gemm_few_rows(const __grid_constant__ GemmStridedArguments<float> arguments) {
  GemmFewRows<GemmFewRowsBuild::kRows[kBuild]>{arguments}();
}
template <int kBuild>
void instantiate_few_rows() {
  if constexpr (sizeof(Element) == 4) [[maybe_unused]]
    const auto entry = &gemm_few_rows<kBuild>;
  if constexpr (kBuild + 1 < GemmFewRowsBuild::kCount) instantiate_few_rows<kBuild + 1>();
}
template void instantiate_few_rows<0>();

#if TW_GEMM_HAS_SM90

__global__ void gemm_realign(
    const __grid_constant__ GemmRealignArguments<sizeof(Element)> arguments) {
  GemmRealign<sizeof(Element)>{arguments}();
}

template <Activation kActivation>
struct FunctorOf;
template <>
struct FunctorOf<Activation::kNone> : Identity {};
template <>
struct FunctorOf<Activation::kRelu> : Relu {};
template <>
struct FunctorOf<Activation::kGelu> : Gelu {};
template <>
struct FunctorOf<Activation::kGeluTanh> : GeluTanh {};
template <>
struct FunctorOf<Activation::kSilu> : Silu {};

template <int kIndex, bool kLinear>
struct EpilogueOf {
  using type = GemmProduct<Element, GemmVariant::at(kIndex).build().may_adjust()>;
};
template <int kIndex>
struct EpilogueOf<kIndex, true> {
  static constexpr GemmVariant kVariant = GemmVariant::at(kIndex);
  using type = GemmLinear<Element, FunctorOf<Activation(kVariant.activation())>,
                          kVariant.build().may_adjust()>;
};

template <int kIndex>
using GemmOf = GemmSm90<Element, Element, GemmVariant::at(kIndex).build(),
                        typename EpilogueOf<kIndex, GemmVariant::at(kIndex).is_linear()>::type>;

template <int kIndex>
__global__ void __launch_bounds__(GemmOf<kIndex>::kThreads, 1)
    gemm(const __grid_constant__ typename GemmOf<kIndex>::Arguments arguments) {
  GemmOf<kIndex>{arguments}(dynamic_shared);
}
template <int kIndex>
__global__ void __cluster_dims__(GemmOf<kIndex>::kCluster, 1, 1)
    __launch_bounds__(GemmOf<kIndex>::kThreads, 1)
        gemm_cluster(const __grid_constant__ typename GemmOf<kIndex>::Arguments arguments) {
  GemmOf<kIndex>{arguments}(dynamic_shared);
}

template <int kIndex>
void instantiate() {
  constexpr GemmVariant kVariant = GemmVariant::at(kIndex);
  if constexpr (kVariant.exists(sizeof(Element)) && kVariant.build().cluster() > 1) [[maybe_unused]]
    const auto entry = &gemm_cluster<kIndex>;
  else if constexpr (kVariant.exists(sizeof(Element))) [[maybe_unused]]
    const auto entry = &gemm<kIndex>;
  if constexpr (kIndex + 1 < GemmVariant::kCount) instantiate<kIndex + 1>();
}
template void instantiate<0>();

template <class T>
using KGroupedGemm = GemmSm90<T, T, kGemmKGrouped, GemmProduct<T, false>>;
template <class Gemm>
__global__ void __launch_bounds__(kGemmKGrouped.threads(), 1)
    gemm_k_grouped(const __grid_constant__ typename Gemm::Arguments arguments) {
  Gemm{arguments}(dynamic_shared);
}
template <class T>
void instantiate_k_grouped() {
  if constexpr (sizeof(T) == 2) [[maybe_unused]]
    const auto entry = &gemm_k_grouped<KGroupedGemm<T>>;
}
template void instantiate_k_grouped<Element>();

#endif

}  // namespace tw::cuda_entry
