// Matrix multiplication on a GPU: which kernel runs, what is copied before, what it is given.
#pragma once

#include <string_view>

#include "tilewright/kernels/gated_linear.h"
#include "tilewright/kernels/gemm_strided_policy.h"
#include "tilewright/kernels/k_grouped_matmul.h"
#include "tilewright/kernels/linear.h"
#include "tilewright/kernels/matmul.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// out = alpha a b + beta addend for each matrix of the batch, into `stream`. T is float, f16 or
/// bf16. Returns what Context::answered_by is to say.
template <class T>
std::string_view launch_own(const kernels::Matmul<T>& call, int device, Stream stream);

/// out = activation(x weight^T * scales + bias) + residual.
template <class T>
std::string_view launch_own(const kernels::Linear<T>& call, int device, Stream stream);

/// out = f(gate) * up (gated_linear.cc).
template <class T>
std::string_view launch_own(const kernels::GatedLinear<T>& call, int device, Stream stream);

/// out[g] = a[:, ks] b[ks, :] over the ks of group g (gemm_k_grouped.cc).
template <class T>
std::string_view launch_own(const kernels::KGroupedMatmul<T>& call, int device, Stream stream);

/// What answers in the kernels for any GPU: Context::answered_by.
inline constexpr std::string_view kPortable = "cuda";

/// A product by the kernels for any GPU (gemm_strided.cc), in the build that was chosen, or in the
/// best.
template <class T>
void launch_strided(kernels::GemmStridedArguments<T>& arguments,
                    const kernels::GemmStridedChoice& choice, const Gpu& on, Stream stream);
template <class T>
void launch_strided(kernels::GemmStridedArguments<T>& arguments, const Gpu& on, Stream stream);

/// As their policy sees it.
template <class T>
kernels::GemmStridedSize strided_size(const kernels::GemmStridedArguments<T>& arguments);

/// For Hopper and 16-bit elements: what multiplies groups of k (kernels::kGemmKGrouped), and what
/// copies operands that TMA cannot read.
struct KGroupedKernels {
  Kernel product, realign;
};
template <class T>
KGroupedKernels k_grouped_kernels(const Gpu& on);

/// What gates a product in memory: takes GemmGateArguments<T>.
template <class T>
Kernel gate_kernel(const Gpu& on);

}  // namespace tw::runtime::cuda
