// Matrix multiplication on a GPU: which kernel runs, what is copied before, what it is given.
#pragma once

#include <string_view>

#include "tilewright/kernels/gated_linear.h"
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

/// What gates a product in memory: takes GemmGateArguments<T>.
template <class T>
Kernel gate_kernel(const Gpu& on);

}  // namespace tw::runtime::cuda
