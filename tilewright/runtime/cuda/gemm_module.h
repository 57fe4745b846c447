// The device code of matrix multiplication, of one element type: its kernels, found when the first
// of them is launched. Plain host code.
#pragma once

#include <string_view>

#include "tilewright/kernels/gemm_few_rows.h"
#include "tilewright/kernels/gemm_strided_policy.h"
#include "tilewright/kernels/gemm_variants_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/kernel_image.h"

namespace tw::runtime::cuda {

/// The functions for any GPU.
struct StridedKernels {
  KernelBuilds<kernels::kGemmStridedShapeCount> shapes;
  KernelBuilds<kernels::kGemmMmaShapeCount * kernels::GemmMmaWay::kCount> mma;
  KernelBuilds<kernels::GemmFewRowsBuild::kCount> few_rows;
  Kernel sum = nullptr, gate = nullptr;

  /// By the mangled name (gemm_kernels.cu).
  void place(std::string_view name, Kernel kernel);
};

/// All that the library carries.
struct GemmModule {
  Kernel realign = nullptr;
  LargeKernel k_grouped;
  StridedKernels strided;
  KernelBuilds<kernels::GemmVariant::kCount> variants;

  explicit GemmModule(const char* image);
};

template <class T>
GemmModule& gemm_module();

/// The functions for any GPU: those of the module, or, where its image has no code for this one,
/// compiled when first asked for.
template <class T>
StridedKernels& strided_kernels(const Gpu& on);

/// The build of TILEWRIGHT_GEMM_BUILD, or -1: one of kGemmShapes, or, counted on, of
/// kGemmMmaShapes, so that builds can be tested and measured beside each other
/// (benchmarks/gpu/gemm_builds.py). Looked at again for each product only where it is set, if to
/// nothing, at the first.
int asked_gemm_build();

}  // namespace tw::runtime::cuda
